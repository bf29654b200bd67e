"""Compressed replies, decompressed for reading only; the agent gets the server's own bytes."""

from __future__ import annotations

import zlib


def decode(body: bytes, encoding: str) -> bytes:
    """`body` decompressed as far as it has arrived. Raises ValueError for an encoding that cannot be read here."""
    if encoding in ("", "identity"):
        return body
    if encoding in ("gzip", "x-gzip", "deflate"):
        window = zlib.MAX_WBITS | 32 if encoding != "deflate" else _deflate_window(body)
        try:
            return zlib.decompressobj(window).decompress(body)
        except zlib.error as error:
            raise ValueError(f"broken {encoding} data: {error}") from error
    raise ValueError(f"content encoding {encoding!r} is not read")


def _deflate_window(body: bytes) -> int:
    # "deflate" means zlib's format, and some servers send the raw one.
    return zlib.MAX_WBITS if body[:1] and (body[0] & 0x0F) == 8 else -zlib.MAX_WBITS
