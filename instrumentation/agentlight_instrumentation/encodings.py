"""Compressed replies, decompressed for reading only; the agent gets the server's own bytes."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from typing import Any

# An encoding that the standard library does not read -> the packages of the agent's environment that do.
PACKAGES = {"br": ("brotli", "brotlicffi"), "zstd": ("compression.zstd", "backports.zstd", "zstandard")}


def decode(body: bytes, encoding: str) -> bytes:
    """`body` decompressed as far as it has arrived. Raises ValueError for an encoding that cannot be read here."""
    if encoding in ("", "identity"):
        return body
    decompress = decoder(encoding)
    if decompress is None:
        raise ValueError(f"content encoding {encoding!r} is not read")
    try:
        return decompress(body)
    except zlib.error as error:
        raise ValueError(f"broken {encoding} data: {error}") from error


def decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    """A function to call with each piece of a body in turn; None for an encoding that is not read here."""
    if encoding in PACKAGES:
        return _of_a_package(encoding)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    started: Any = None

    def decompress(piece: bytes) -> bytes:
        nonlocal started
        if started is None:
            if not piece:
                return b""
            started = zlib.decompressobj(zlib.MAX_WBITS | 32 if encoding != "deflate" else _deflate_window(piece))
        return started.decompress(piece)

    return decompress


def _of_a_package(encoding: str) -> Callable[[bytes], bytes] | None:
    """None where the agent has no package that reads it; then its own library cannot read it either."""
    for name in PACKAGES[encoding]:
        try:
            package: Any = importlib.import_module(name)
        except ImportError:
            continue
        started = package.Decompressor() if encoding == "br" else package.ZstdDecompressor()
        started = started.decompressobj() if name == "zstandard" else started
        step = getattr(started, "process", None) or started.decompress

        def decompress(piece: bytes, step: Any = step) -> bytes:
            if not piece:
                return b""
            try:
                return step(piece)
            except Exception as error:  # each package has an error of its own
                raise ValueError(f"broken {encoding} data: {error}") from error

        return decompress
    return None


def _deflate_window(body: bytes) -> int:
    # "deflate" means zlib's format, and some servers send the raw one.
    return zlib.MAX_WBITS if body[:1] and (body[0] & 0x0F) == 8 else -zlib.MAX_WBITS
