"""How the fake server reads and answers in wire formats other than chat completions; a class each, official shapes.

`vllm` in a shape means: also what vLLM 0.32 puts there. Ids and log-probs are those of `fake_model`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fake_model import Reply, Sampled, logprob, to_json


class Completions(Reply):
    """Text completions; n choices."""

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        return {**body, "messages": [{"role": "prompt", "content": body["prompt"]}], "tools": None}

    @property
    def wants_logprobs(self) -> bool:
        return self.body.get("logprobs") is not None

    def whole(self) -> bytes:
        choices = []
        for index, one in enumerate(self.request.choices):
            tokens = self._tokens(one, 0, len(one.tokens))
            end = {"finish_reason": one.finish_reason, "stop_reason": None, "token_ids": tokens.pop("token_ids")}
            prompt_ids = self.request.prompt_ids if self.ids else None
            choices.append({"index": index, "text": _text(one), **tokens, **end, "prompt_token_ids": prompt_ids})
        head = {**self.head, "object": "text_completion", "model": self.body.get("model")}
        return to_json({**head, "choices": choices, "usage": self._usage(), "kv_transfer_params": None})

    def events(self) -> Iterator[bytes]:
        for index, one in enumerate(self.request.choices):
            for position, delta in enumerate(one.deltas):
                choice = {"index": index, "text": (delta or {}).get("content") or "", "finish_reason": None}
                tokens = self._tokens(one, position, position + 1)
                choice |= {"logprobs": tokens["logprobs"], "stop_reason": None}
                choice["prompt_token_ids"] = self.request.prompt_ids if self.ids and position == 0 else None
                choice["token_ids"] = tokens["token_ids"]
                if position == len(one.tokens) - 1:
                    choice["finish_reason"] = one.finish_reason
                yield self._event([choice])
        if (self.body.get("stream_options") or {}).get("include_usage"):
            yield self._event([], usage=self._usage())
        if not self.switches.no_done:
            yield self._framed(b"[DONE]")

    def _tokens(self, one: Sampled, start: int, end: int) -> dict[str, Any]:
        tokens, ids = one.tokens[start:end], one.ids[max(start, self.switches.omit_ids) : end]
        logprobs = {
            "text_offset": [0] * len(tokens), "token_logprobs": [logprob(token) for token in tokens],
            "tokens": tokens, "top_logprobs": [{token: logprob(token)} for token in tokens],
        }  # fmt: skip
        return {"logprobs": logprobs if self.wants_logprobs else None, "token_ids": ids if self.ids else None}


class Responses(Reply):
    """The Responses API, with vLLM's `enable_response_messages` and log-probs of what is put out as text."""

    said: dict[str, list[Any]] = {}  # noqa: RUF012 - the server's memory of all responses

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        new = body.get("input")
        items = new if isinstance(new, list) else [{"role": "user", "content": new}]
        messages = [*Responses.said.get(body.get("previous_response_id") or "", ()), *items]
        instructions = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
        texts = [_flat(item) for item in [*instructions, *messages]]
        tools = [{"function": {"name": tool["name"]}} for tool in body.get("tools") or ()]
        return {
            **body,
            "messages": texts,
            "tools": tools,
            "max_tokens": body.get("max_output_tokens"),
            "said": messages,
        }

    def _response(self, status: str, output: list[Any]) -> dict[str, Any]:
        (one,) = self.request.choices
        ended = status not in ("in_progress", "queued")
        tells = ended and bool(self.body.get("enable_response_messages"))
        prompt = [{"message": "", "tokens": self.request.prompt_ids, "type": "raw_message_tokens"}] if tells else None
        sampled = [{"message": "", "tokens": one.ids, "type": "raw_message_tokens"}] if tells else None
        why = {"reason": "max_output_tokens"} if status == "incomplete" else None
        count = self._usage()
        usage = {
            "input_tokens": count["prompt_tokens"], "output_tokens": count["completion_tokens"],
            "total_tokens": count["total_tokens"], "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }  # fmt: skip
        return {
            "id": "resp_" + self.head["id"], "created_at": 1796095277, "object": "response", "status": status,
            "error": None, "incomplete_details": why, "instructions": self.body.get("instructions"),
            "model": self.body.get("model"), "output": output, "parallel_tool_calls": True, "temperature": 1.0,
            "tool_choice": "auto", "tools": self.body.get("tools") or [], "top_p": 1.0,
            "top_logprobs": 0 if self._logs else None, "usage": usage if ended else None,
            "input_messages": prompt, "output_messages": sampled,
        }  # fmt: skip

    @property
    def _logs(self) -> bool:
        return "message.output_text.logprobs" in (self.body.get("include") or ())

    def _items(self) -> list[dict[str, Any]]:
        (one,) = self.request.choices
        if calls := one.message.get("tool_calls"):
            return [
                {"type": "function_call", "id": f"fc_{number}", "call_id": call["id"], "status": "completed",
                 **call["function"]}
                for number, call in enumerate(calls)
            ]  # fmt: skip
        logs = [self._logprob(token) for token in one.tokens] if self._logs else None
        part = {"type": "output_text", "annotations": [], "text": _text(one), "logprobs": logs}
        return [{"type": "message", "id": "msg_0", "role": "assistant", "status": "completed", "content": [part]}]

    def _logprob(self, token: str) -> dict[str, Any]:
        return {"token": token, "bytes": list(token.encode()), "logprob": logprob(token), "top_logprobs": []}

    def _final(self) -> dict[str, Any]:
        (one,) = self.request.choices
        items = self._items()
        response = self._response("incomplete" if one.finish_reason == "length" else "completed", items)
        self.said[response["id"]] = [*self.body["said"], *items]
        return response

    def whole(self) -> bytes:
        return to_json(self._final())

    def events(self) -> Iterator[bytes]:
        for kind in ("created", "in_progress"):
            yield self._named("response." + kind, response=self._response("in_progress", []))
        (one,) = self.request.choices
        for number, item in enumerate(self._items()):
            where = {"output_index": number, "item_id": item["id"]}
            if item["type"] == "message":
                part = {**item["content"][0]}
                yield self._named("response.output_item.added", output_index=number, item={**item, "content": []})
                empty = {**part, "text": "", "logprobs": []}
                yield self._named("response.content_part.added", **where, content_index=0, part=empty)
                for token, delta in zip(one.tokens, one.deltas, strict=True):
                    logs = [self._logprob(token)] if self._logs else []
                    if piece := (delta or {}).get("content"):
                        yield self._named(
                            "response.output_text.delta", **where, content_index=0, delta=piece, logprobs=logs
                        )
                yield self._named("response.output_text.done", **where, content_index=0, text=part["text"], logprobs=[])
                yield self._named("response.content_part.done", **where, content_index=0, part=part)
            else:
                added = {**item, "arguments": "", "status": "in_progress"}
                yield self._named("response.output_item.added", output_index=number, item=added)
                text = item["arguments"]
                yield self._named("response.function_call_arguments.delta", **where, delta=text)
                yield self._named("response.function_call_arguments.done", **where, arguments=text, name=item["name"])
            yield self._named("response.output_item.done", output_index=number, item=item)
        yield self._named("response.completed", response=self._final())

    def _named(self, kind: str, **more: Any) -> bytes:
        return b"event: " + kind.encode() + b"\n" + self._framed(to_json({**more, "sequence_number": 0, "type": kind}))


class Messages(Reply):
    """Anthropic's Messages API; vLLM's tells no ids."""

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        tools = [{"function": {"name": tool["name"]}} for tool in body.get("tools") or ()]
        return {**body, "messages": [*system, *body["messages"]], "tools": tools}

    def _message(self, content: list[Any], reason: str | None, sampled: int) -> dict[str, Any]:
        usage = {"input_tokens": len(self.request.prompt_ids), "output_tokens": sampled}
        head = {"id": "msg_" + self.head["id"], "type": "message", "role": "assistant", "model": self.body.get("model")}
        return {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage}

    def _blocks(self) -> list[dict[str, Any]]:
        (one,) = self.request.choices
        blocks = [
            {"type": "tool_use", "id": call["id"], "name": call["function"]["name"],
             "input": json.loads(call["function"]["arguments"])}
            for call in one.message.get("tool_calls") or ()
        ]  # fmt: skip
        return blocks or [{"type": "text", "text": _text(one)}]

    @property
    def _reason(self) -> str:
        return {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}[
            self.request.choices[0].finish_reason
        ]

    def whole(self) -> bytes:
        return to_json(self._message(self._blocks(), self._reason, self._usage()["completion_tokens"]))

    def events(self) -> Iterator[bytes]:
        yield self._named("message_start", message=self._message([], None, 0))
        yield self._named("ping")
        (one,) = self.request.choices
        for index, block in enumerate(self._blocks()):
            if block["type"] == "text":
                yield self._named("content_block_start", index=index, content_block={"type": "text", "text": ""})
                pieces = [(delta or {}).get("content") for delta in one.deltas]
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces if piece]
            else:
                yield self._named("content_block_start", index=index, content_block={**block, "input": {}})
                text = json.dumps(block["input"])
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in (text[:4], text[4:])]
            for delta in deltas:
                yield self._named("content_block_delta", index=index, delta=delta)
            yield self._named("content_block_stop", index=index)
        usage = {"output_tokens": self._usage()["completion_tokens"]}
        yield self._named("message_delta", delta={"stop_reason": self._reason, "stop_sequence": None}, usage=usage)
        yield self._named("message_stop")

    def _named(self, kind: str, **more: Any) -> bytes:
        return b"event: " + kind.encode() + b"\n" + self._framed(to_json({"type": kind, **more}))


class Gemini(Reply):
    """generateContent, and streamGenerateContent as events or as one growing array."""

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        messages = [{"role": one.get("role"), "content": json.dumps(one["parts"])} for one in body["contents"]]
        names = [one["name"] for tool in body.get("tools") or () for one in tool["functionDeclarations"]]
        settings = body.get("generationConfig") or {}
        stream = ":streamGenerateContent" in path
        return {
            "messages": messages, "tools": [{"function": {"name": name}} for name in names], "stream": stream,
            "max_tokens": settings.get("maxOutputTokens"), "n": settings.get("candidateCount"),
            "model": path.rpartition("/")[2].partition(":")[0], "sse": "alt=sse" in path,
        }  # fmt: skip

    @property
    def content_type(self) -> str:
        return "text/event-stream" if self.body["sse"] else "application/json"

    def _chunk(self, parts: dict[int, list[Any]], last: bool) -> bytes:
        reasons = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP"}
        candidates = []
        for index, one in enumerate(self.request.choices):
            candidate = {"content": {"parts": parts.get(index, []), "role": "model"}, "index": index}
            candidates.append(candidate | ({"finishReason": reasons[one.finish_reason]} if last else {}))
        count = self._usage()
        usage = {"promptTokenCount": count["prompt_tokens"], "totalTokenCount": count["total_tokens"]}
        usage |= {"candidatesTokenCount": count["completion_tokens"]} if last else {}
        return to_json({"candidates": candidates, "usageMetadata": usage, "modelVersion": self.body["model"]})

    def _parts(self, one: Sampled) -> list[Any]:
        calls = [call["function"] for call in one.message.get("tool_calls") or ()]
        found = [{"functionCall": {"name": call["name"], "args": json.loads(call["arguments"])}} for call in calls]
        return found or [{"text": _text(one)}]

    def whole(self) -> bytes:
        return self._chunk({index: self._parts(one) for index, one in enumerate(self.request.choices)}, last=True)

    def events(self) -> Iterator[bytes]:
        chunks = []
        if self.request.choices[0].message.get("tool_calls"):
            chunks = [self.whole()]
        else:
            steps = max(len(one.deltas) for one in self.request.choices)
            for step in range(steps):
                live = {n: one for n, one in enumerate(self.request.choices) if step < len(one.deltas)}
                texts = {n: one.deltas[step] or {} for n, one in live.items()}
                parts = {index: [{"text": delta["content"]}] for index, delta in texts.items() if delta.get("content")}
                chunks.append(self._chunk(parts, last=step == steps - 1))
        for number, chunk in enumerate(chunks):
            yield self._framed(chunk) if self.body["sse"] else (b",\r\n" if number else b"[") + chunk
        if not self.body["sse"]:
            yield b"\n]\n"


class Ollama(Reply):
    """/api/chat and /api/generate, as lines of JSON unless `stream` is false."""

    content_type = "application/x-ndjson"

    @staticmethod
    def asked(body: dict[str, Any], path: str) -> dict[str, Any]:
        messages = body.get("messages") or [{"role": "prompt", "content": body.get("prompt")}]
        limit = (body.get("options") or {}).get("num_predict")
        return {**body, "messages": messages, "max_tokens": limit, "stream": body.get("stream") is not False}

    def _line(self, text: str, calls: list[Any], last: bool) -> bytes:
        line: dict[str, Any] = {"model": self.body["model"], "created_at": "2026-12-01T00:00:00Z"}
        if "prompt" in self.body:
            line["response"] = text
        else:
            found = {"tool_calls": [{"function": call} for call in calls]} if calls else {}
            line["message"] = {"role": "assistant", "content": text, **found}
        line["done"] = last
        if last:
            count, reason = self._usage(), self.request.choices[0].finish_reason
            line |= {"done_reason": "length" if reason == "length" else "stop", "total_duration": 1}
            line |= {"prompt_eval_count": count["prompt_tokens"], "eval_count": count["completion_tokens"]}
        return to_json(line)

    def _calls(self) -> list[Any]:
        calls = [call["function"] for call in self.request.choices[0].message.get("tool_calls") or ()]
        return [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]

    def whole(self) -> bytes:
        (one,) = self.request.choices
        return self._line("" if self._calls() else _text(one), self._calls(), last=True)

    def events(self) -> Iterator[bytes]:
        (one,) = self.request.choices
        if calls := self._calls():
            yield self._line("", calls, last=False) + b"\n"
        for delta in one.deltas:
            if piece := (delta or {}).get("content"):
                yield self._line(piece, [], last=False) + b"\n"
        yield self._line("", [], last=True) + b"\n"


def _text(one: Sampled) -> str:
    return one.message.get("content") or ""


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    content = item.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    return {"role": item.get("role") or item.get("type"), "content": content or json.dumps(item)}


REPLIES: dict[str, type[Any]] = {
    "/chat/completions": Reply, "/completions": Completions, "/responses": Responses, "/messages": Messages,
    ":generateContent": Gemini, ":streamGenerateContent": Gemini, "/api/chat": Ollama, "/api/generate": Ollama,
}  # fmt: skip
