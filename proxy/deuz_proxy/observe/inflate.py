"""Decoded copies of compressed answers, for the observer only.

Rules:
- What goes to the client is never decoded; a copy is, beside the stream.
- A damaged or unknown encoding makes the observer blind, never the client.
- Output is bounded, of each chunk and in sum: a bomb ends the observation.
"""

import zlib
from collections.abc import Callable
from typing import Protocol

import brotli
from backports import zstd

_MOST_BYTES = 64 * 1024 * 1024
# A few bytes may become gigabytes: what one chunk gives is bounded while it is made.
_MOST_AT_ONCE = 8 * 1024 * 1024


class Inflater(Protocol):
    """Turns the next encoded bytes into decoded ones."""

    def __call__(self, chunk: bytes, /) -> bytes: ...  # noqa: D102


class Decoded:
    """Feeds a meter with decoded bytes; blind once something does not add up."""

    __slots__ = ("_inflate", "_total", "is_blind")

    def __init__(self, encoding: bytes | None) -> None:
        self._inflate = _inflater(encoding)
        self._total = 0
        self.is_blind = self._inflate is None

    def __call__(self, chunk: bytes) -> bytes:
        """Return the chunk decoded; empty when blind."""
        if self._inflate is None or self.is_blind:
            return b""
        try:
            plain = self._inflate(chunk)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError, ValueError):
            self.is_blind = True
            return b""
        if self._inflate is bytes:
            return plain
        self._total += len(plain)
        self.is_blind = self._total > _MOST_BYTES or len(plain) >= _MOST_AT_ONCE
        return plain


def _inflater(encoding: bytes | None) -> Inflater | None:
    name = (encoding or b"identity").strip().lower()
    openers: dict[bytes, Callable[[], Inflater]] = {
        b"identity": lambda: bytes,
        b"gzip": lambda: _zlib(16 + zlib.MAX_WBITS),
        b"x-gzip": lambda: _zlib(16 + zlib.MAX_WBITS),
        b"deflate": lambda: _zlib(zlib.MAX_WBITS),
        b"br": _brotli,
        b"zstd": _zstd,
    }
    opener = openers.get(name)
    return opener() if opener else None


def _zlib(window_bits: int) -> Inflater:
    inflate = zlib.decompressobj(window_bits).decompress
    return lambda chunk: inflate(chunk, _MOST_AT_ONCE)


def _brotli() -> Inflater:
    inflate = brotli.Decompressor().process
    return lambda chunk: inflate(chunk, output_buffer_limit=_MOST_AT_ONCE)


def _zstd() -> Inflater:
    inflate = zstd.ZstdDecompressor().decompress
    return lambda chunk: inflate(chunk, _MOST_AT_ONCE)
