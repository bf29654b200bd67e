"""--reconstruct: token ids for calls of servers that give none, rendered from their messages; their ratio is unknown.

What was sampled is not known to the token: such data suit `--objective sft`. Nothing captured is replaced.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentlight_store import Choice, Rollout, Span
from agentlight_trainer.errors import SettingError

REASON = "rebuilt from messages (--reconstruct)"
Rebuild = Callable[[Rollout], Rollout]


def rebuilder(model: str) -> Rebuild:
    """With the tokenizer and the chat template of `model`. Raises SettingError when it has none."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SettingError(
            f"--reconstruct needs the tokenizer of {model!r}, which cannot be loaded: {reason}"
        ) from None
    if not tokenizer.chat_template:
        raise SettingError(f"--reconstruct needs a chat template, and the tokenizer of {model!r} has none")
    return lambda rollout: replace(rollout, spans=[rebuilt(span, tokenizer) for span in rollout.spans])


def rebuilt(span: Span, tokenizer: Any) -> Span:
    """The span with ids, for one that has messages and a reply but none; any other as it is.

    The whole conversation is rendered once, with and without the reply: the reply's ids are what is added.
    """
    has_ids = span.prompt_ids is not None and all(choice.completion_ids is not None for choice in span.choices)
    if span.status != "ok" or not span.choices or not span.messages or has_ids:
        return span
    try:
        prompt = _render(tokenizer, span.messages, span.tools, add_generation_prompt=True)
        choices = [_choice(choice, span, prompt, tokenizer) for choice in span.choices]
    except (ValueError, TypeError, KeyError) as error:
        return replace(span, trainable=False, reason=f"cannot be rendered: {type(error).__name__}: {error}")
    except Exception as error:  # of the template's own
        return replace(span, trainable=False, reason=f"the chat template refuses it: {error}")
    return replace(span, prompt_ids=array("I", prompt), choices=choices, trainable=True, reason=None)


def _choice(choice: Choice, span: Span, prompt: list[int], tokenizer: Any) -> Choice:
    reply: dict[str, Any] = {"role": "assistant", "content": choice.text or ""}
    if choice.tool_calls:
        reply["tool_calls"] = choice.tool_calls
    whole = _render(tokenizer, [*span.messages, reply], span.tools, add_generation_prompt=False)
    if whole[: len(prompt)] != prompt:
        raise ValueError("the template renders the history otherwise once the reply is there")
    completion = whole[len(prompt) :]
    end = tokenizer.eos_token_id
    if end in completion:  # what a template puts after it (a newline) was never sampled
        completion = completion[: completion.index(end) + 1]
    return replace(choice, completion_ids=array("I", completion), completion_logprobs=None)


def _render(tokenizer: Any, messages: list[Any], tools: Any, *, add_generation_prompt: bool) -> list[int]:
    text = tokenizer.apply_chat_template(
        messages, tools=tools, add_generation_prompt=add_generation_prompt, tokenize=False
    )
    return tokenizer(text, add_special_tokens=False)["input_ids"]
