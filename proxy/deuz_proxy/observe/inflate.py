"""Decoded copies of compressed bodies, to be understood; what is sent stays as it came.

Rules:
- A damaged or unknown encoding makes the observer blind, never the client or upstream.
- Output is bounded while it is made: of each step, of each of stacked codings, in sum.
- A body counts as decoded only if it is whole and nothing follows it: what another
  reader could take differently is not understood.
"""

import asyncio
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import brotli

from deuz_proxy.observe.zstandard import zstd

Headers = Sequence[tuple[bytes, bytes]]

_MOST_BYTES = 64 * 1024 * 1024
# A few bytes may become gigabytes: what one chunk gives is bounded while it is made.
_MOST_AT_ONCE = 8 * 1024 * 1024
_MOST_STACKED = 4
# One step of a request's body: half a millisecond or so, then others have their turn.
_STEP_BYTES = 256 * 1024
_STEPS_A_TURN = 4
# RFC 9659: of content coded as zstd no more than 8 MB of window may be asked for.
_ZSTD_OPTIONS = {int(zstd.DecompressionParameter.window_log_max): 23}
_FAULTS = (zlib.error, brotli.error, zstd.ZstdError, EOFError, ValueError)


class Undecodable(Exception):
    """A body cannot be decoded; `reason` is a word of `PASSTHROUGHS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Decoder(Protocol):
    """What decodes one member of one coding, as the standard library's own ones do."""

    @property
    def eof(self) -> bool: ...  # noqa: D102
    @property
    def unused_data(self) -> bytes: ...  # noqa: D102
    def decompress(self, data: bytes, max_length: int) -> bytes: ...  # noqa: D102


def content_codings(headers: Headers) -> tuple[bytes, ...]:
    """Return the codings of a body in the order in which they were applied."""
    return codings_named([v for n, v in headers if n.lower() == b"content-encoding"])


def codings_named(values: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the codings that the values of these lines name, in their order."""
    if not values:
        return ()
    names = b",".join(values).lower().split(b",")
    return tuple(n for name in names if (n := name.strip()) not in (b"", b"identity"))


def can_decode(codings: Sequence[bytes]) -> bool:
    """Tell whether all of them are known, and not more than anybody needs."""
    return len(codings) <= _MOST_STACKED and all(name in _CODINGS for name in codings)


async def decode_body(
    body: bytes, codings: Sequence[bytes], *, limit_bytes: int
) -> bytes:
    """Return the body decoded; others have their turn meanwhile.

    Raises:
        Undecodable: a coding is unknown, the body is damaged, or longer than the limit.
    """
    pieces: Iterator[bytes] = _sliced(body)
    for layer in _layers(codings):
        pieces = _through(layer, pieces, limit_bytes)
    plain = []
    try:
        for number, piece in enumerate(pieces, 1):
            plain.append(piece)
            if number % _STEPS_A_TURN == 0:
                await asyncio.sleep(0)
    except _FAULTS as fault:
        raise Undecodable("damaged_encoding") from fault
    return b"".join(plain)


class Decoded:
    """Feeds a meter with decoded bytes; blind once something does not add up."""

    __slots__ = ("_layers", "_total", "is_blind")

    def __init__(self, codings: Sequence[bytes] = ()) -> None:
        self._total = 0
        self.is_blind = False
        self._layers: tuple[_Layer, ...] = ()
        if codings:
            try:
                self._layers = _layers(codings)
            except Undecodable:
                self.is_blind = True

    def __call__(self, chunk: bytes) -> bytes:
        """Return the chunk decoded; empty when blind."""
        if self.is_blind:
            return b""
        if not self._layers:
            return chunk
        try:
            for layer in self._layers:
                chunk = layer.decode(chunk, _MOST_AT_ONCE)
                # What is left behind the bound would have to be kept.
                self.is_blind |= len(chunk) >= _MOST_AT_ONCE
        except _FAULTS:
            self.is_blind = True
            return b""
        self._total += len(chunk)
        self.is_blind |= self._total > _MOST_BYTES
        return chunk


class _Layer:
    """One coding; members that follow each other make one body."""

    __slots__ = ("_decoder", "_is_many", "_open", "_waiting")

    def __init__(self, opening: Callable[[bytes], Decoder], *, is_many: bool) -> None:
        self._open = opening
        self._is_many = is_many
        self._decoder: Decoder | None = None
        self._waiting = b""

    def decode(self, data: bytes, most_bytes: int) -> bytes:
        """Return what these bytes give, up to about the bound."""
        self._waiting += data
        parts = []
        while most_bytes > 0 and (piece := self.step(most_bytes)):
            parts.append(piece)
            most_bytes -= len(piece)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take(self, data: bytes) -> None:
        """Take the next encoded bytes."""
        self._waiting += data

    def step(self, most_bytes: int) -> bytes:
        """Return decoded bytes; none if more encoded ones are needed for it."""
        while True:
            if not self._waiting and (self._decoder is None or self._decoder.eof):
                return b""
            decoder = self._decoder
            if decoder is None:
                decoder = self._decoder = self._open(self._waiting)
            elif decoder.eof:
                raise ValueError("bytes behind the end")
            piece = decoder.decompress(self._waiting, most_bytes)
            self._waiting = decoder.unused_data
            if decoder.eof and self._is_many:
                self._decoder = None
            if piece or not decoder.eof:
                return piece

    def end(self) -> None:
        """Check that the body ended where its last member does.

        Raises:
            EOFError: it is cut off.
        """
        if self._decoder is not None and not self._decoder.eof:
            raise EOFError


class _Zlib:
    """zlib's decoder in the form of the others: input beyond the bound is kept here."""

    __slots__ = ("_inner", "_tail")

    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)
        self._tail = b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._inner.decompress(self._tail + data, max_length)
        self._tail = self._inner.unconsumed_tail
        return piece


class _Brotli:
    """Brotli's decoder in the form of the others; it fails on bytes behind the end."""

    __slots__ = ("_inner",)

    unused_data = b""

    def __init__(self) -> None:
        self._inner = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._inner.is_finished())

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece: bytes = self._inner.process(data, output_buffer_limit=max_length)
        return piece


def _gzip(_: bytes) -> Decoder:
    return _Zlib(16 + zlib.MAX_WBITS)


def _deflate(start: bytes) -> Decoder:
    """Return the decoder of what is called deflate: with zlib's frame, or raw.

    A raw stream never starts with zlib's method: its first block would be a stored one
    whose padding is not zero.
    """
    is_framed = start[:1] and start[0] & 0x0F == zlib.DEFLATED
    return _Zlib(zlib.MAX_WBITS if is_framed else -zlib.MAX_WBITS)


def _brotli(_: bytes) -> Decoder:
    return _Brotli()


def _zstd(_: bytes) -> Decoder:
    return zstd.ZstdDecompressor(options=_ZSTD_OPTIONS)


# Name → opener, and whether members may follow each other.
_CODINGS: dict[bytes, tuple[Callable[[bytes], Decoder], bool]] = {
    b"gzip": (_gzip, True),
    b"x-gzip": (_gzip, True),
    b"deflate": (_deflate, False),
    b"br": (_brotli, False),
    b"zstd": (_zstd, True),
}


def _layers(codings: Sequence[bytes]) -> tuple[_Layer, ...]:
    """Return what undoes the codings, the last that was applied first."""
    if not can_decode(codings):
        raise Undecodable("unknown_encoding")
    found = [_CODINGS[name] for name in reversed(codings)]
    return tuple(_Layer(opening, is_many=is_many) for opening, is_many in found)


def _sliced(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), _STEP_BYTES):
        yield body[at : at + _STEP_BYTES]


def _through(
    layer: _Layer, pieces: Iterable[bytes], limit_bytes: int
) -> Iterator[bytes]:
    """Yield what the layer makes of the pieces; an empty one where it makes nothing."""
    total = 0
    for encoded in pieces:
        layer.take(encoded)
        while piece := layer.step(_STEP_BYTES):
            total += len(piece)
            if total > limit_bytes:
                raise Undecodable("decoded_too_large")
            yield piece
        yield b""
    layer.end()
