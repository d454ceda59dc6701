"""Events as lines of bytes, for the way from one process to another.

Rules:
- A line is a letter for the kind, JSON (it has no line break inside) and a line break.
  Not MessagePack: the ids of traces have 128 bits.
- Both ends run the same version; what does not decode is an error, never a guess.
- Times are durations or Unix time already: no reading of a monotonic clock crosses.
"""

import json
from collections.abc import Callable

import msgspec

from deuz_proxy.observe.events import (
    Event,
    EventsLost,
    FaultCaught,
    LedgerUsed,
    RequestFinished,
    RequestStarted,
)

_KINDS: dict[bytes, type] = {
    b"s": RequestStarted,
    b"f": RequestFinished,
    b"l": LedgerUsed,
    b"c": FaultCaught,
    b"e": EventsLost,
}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
_DECODERS: dict[bytes, Callable[[bytes], Event]] = {
    letter: msgspec.json.Decoder(kind).decode for letter, kind in _KINDS.items()
}
_encode = msgspec.json.Encoder().encode


class LineUnreadable(ValueError):
    """A line that is no event."""


def encode_event(event: Event) -> bytes:
    """Return the event's line.

    Raises:
        KeyError: the event is none that a worker tells.
    """
    letter = _LETTERS[type(event)]
    try:
        return letter + _encode(event) + b"\n"
    except UnicodeEncodeError:
        return letter + _cleaned(event) + b"\n"


def decode_event(line: bytes) -> Event:
    """Return the event of a line, its line break left out.

    Raises:
        LineUnreadable: it is none.
    """
    decode = _DECODERS.get(line[:1])
    if decode is None:
        raise LineUnreadable("a line of no known kind")
    try:
        return decode(line[1:])
    except msgspec.DecodeError as fault:
        # Without its words: they may repeat the line.
        raise LineUnreadable(f"a line of kind {line[:1].decode()}") from fault


def _cleaned(event: Event) -> bytes:
    # A path of bytes that are not UTF-8 has lone surrogates; they are shown nowhere.
    built = msgspec.to_builtins(event)
    return json.dumps(built, ensure_ascii=False).encode("utf-8", "replace")
