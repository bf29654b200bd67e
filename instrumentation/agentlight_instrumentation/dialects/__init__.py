"""How to read a request and a reply, one pure file a wire format; `DIALECTS` maps the end of a URL path to its file."""

from __future__ import annotations

DIALECTS = {
    "/chat/completions": "openai_chat",
    "/completions": "openai_completions",
    "/responses": "openai_responses",
    "/messages": "anthropic_messages",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
    "/api/chat": "ollama",
    "/api/generate": "ollama",
}


def find(path: str) -> tuple[str, str] | None:
    """The dialect's module name and the path's ending, for the path of a POST request; None is no LLM call."""
    for suffix, name in DIALECTS.items():
        if path.endswith(suffix):
            return name, suffix
    return None
