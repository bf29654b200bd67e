"""Keys taken out of text before it is written: a command line, a server's error message."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

GONE = "[redacted]"
# The last word of a name that holds a key: OPENAI_API_KEY, --api-key, access_token; not --max-tokens.
_SECRET_NAME = re.compile(
    r"(?:(?:^|[^a-z])(?:key|token|pass|credentials?|authorization|cookie|bearer)|apikey|secret|password|passwd)$"
)
_LONG_ENOUGH = 8  # characters; a shorter value of such a variable ("none", "EMPTY") is no key
_USER_INFO = re.compile(r"(?:(?<=://)[^/\s?#@]*|^[^/\s?#@:]+:[^/\s?#@]+)@")
_PARAMETER = re.compile(r"(?<=[?&])([\w.-]+)=([^&#\s\"']+)")
_HEADER = re.compile(r"(?i)\b((?:proxy-)?authorization|(?:x-)?(?:goog-)?api-key|(?:set-)?cookie)(\s*[:=]\s*).+")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}")
# Of OpenAI and those who copied it, Google, GitHub, Hugging Face, Groq, xAI, AWS, Slack.
_SHAPES = re.compile(
    r"\b(?:[sp]k-[\w*.-]{8,}|AIza[\w-]{20,}|gh[opusr]_\w{20,}|github_pat_\w{20,}|hf_\w{16,}|gsk_\w{16,}|xai-[\w-]{16,}"
    r"|A[KS]IA[A-Z0-9]{16}|xox[abprs]-[\w-]{10,})"
)


def is_secret_name(name: str) -> bool:
    """Of an option, a variable, a header or a query parameter: whether its value is a key."""
    return bool(_SECRET_NAME.search(name.lower().replace("-", "_")))


def redacted(text: str) -> str:
    """Without user-info and keys in URLs, values of known headers, and what looks like a key of a known service."""
    text = _USER_INFO.sub(f"{GONE}@", text)
    text = _PARAMETER.sub(lambda found: f"{found[1]}={GONE}" if is_secret_name(found[1]) else found[0], text)
    text = _HEADER.sub(rf"\1\2{GONE}", text)
    return _SHAPES.sub(GONE, _BEARER.sub(rf"\1 {GONE}", text))


def redacted_command(words: list[str], environ: Mapping[str, str]) -> list[str]:
    """Also without the values of options that are named like keys, and of such variables of the environment."""
    # `python agent.py "$OPENAI_API_KEY"`
    secrets = [value for name, value in environ.items() if len(value) >= _LONG_ENOUGH and is_secret_name(name)]
    shown, value_follows = [], False
    for word in words:
        name, equals, _ = word.partition("=")
        if value_follows and not word.startswith("-"):
            word = GONE
        elif equals and is_secret_name(name) and not re.search(r"\s", name):
            word = f"{name}={GONE}"
        value_follows = word.startswith("-") and not equals and is_secret_name(word)
        for secret in secrets:
            word = word.replace(secret, GONE)
        shown.append(redacted(word))
    return shown
