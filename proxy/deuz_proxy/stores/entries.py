"""How an entry of the ledger looks at rest.

Rules:
- The same operations have the same bytes, and come back equal.
- An entry is bound to its key: what is damaged, cut off, or stands at another key is
  no entry. So is one that a newer version wrote in a form that is not known here.
"""

from collections.abc import Callable

import msgspec
import xxhash

from deuz_compiler import Bare, Operation

# Bump when the bytes below change; an entry of another form is a miss.
_FORM = b"\x01"
_SUM_BYTES = 8
_AT = len(_FORM) + _SUM_BYTES

Change = Callable[[tuple[Operation, ...]], tuple[Operation, ...]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Operation, ...]).decode

BARE: tuple[Operation, ...] = (Bare(),)
_BARE_BYTES = _encode(BARE)


def seal_entry(key: bytes, operations: tuple[Operation, ...]) -> bytes:
    """Return the bytes that are stored under the key."""
    payload = _encode(operations)
    return _FORM + _sum(key, payload) + payload


def open_entry(key: bytes, sealed: bytes) -> tuple[Operation, ...] | None:
    """Return the operations that were sealed; None if these are not the bytes."""
    payload = sealed[_AT:]
    if sealed[:_AT] != _FORM + _sum(key, payload):
        return None
    # Most entries of a chat say that a turn stays bare.
    if payload == _BARE_BYTES:
        return BARE
    try:
        return _decode(payload)
    except msgspec.DecodeError:
        return None


def reseal_entry(
    key: bytes, sealed: bytes, *, change: Change
) -> tuple[bytes, int] | None:
    """Return the changed entry's bytes and how many of its operations are other ones.

    None if nothing changed, or there is no entry in these bytes.
    """
    held = open_entry(key, sealed)
    if held is None:
        return None
    operations = change(held)
    if operations == held:
        return None
    pairs = zip(held, operations, strict=True)
    return seal_entry(key, operations), sum(old != new for old, new in pairs)


def _sum(key: bytes, payload: bytes) -> bytes:
    return xxhash.xxh3_64_digest(key + payload)
