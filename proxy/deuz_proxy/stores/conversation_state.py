"""A conversation of the tracker as one value, and as bytes.

Rules:
- A baseline that is known at several places is written once.
- Bytes of another form, or damaged ones, are no state: the conversation is then new.
"""

import msgspec
import xxhash

from deuz_compiler import Baseline

# Bump when the bytes below change, or a baseline's fields.
_FORM = b"\x05"
_SUM_BYTES = 8


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A place where requests ended; `baselines` are numbers of the state's."""

    key: bytes
    seen: int
    continued: int
    baselines: tuple[int, ...]


class ConversationState(msgspec.Struct, frozen=True, array_like=True):
    """All that a tracker knows of a conversation; `latest` are numbers of baselines."""

    baselines: tuple[Baseline, ...]
    latest: tuple[int, ...]
    places: tuple[Place, ...]
    newest: bytes

    @property
    def heads(self) -> tuple[bytes, ...]:
        """Digests of all tools and system texts that a break may be explained from."""
        prefixes = [baseline.outbound for baseline in self.baselines]
        both = [d for p in prefixes for d in (p.tools.digest, p.system.digest) if d]
        return tuple(dict.fromkeys(both))


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ConversationState).decode


def seal_state(name: str, state: ConversationState) -> bytes:
    """Return the bytes that are stored under the conversation's name."""
    payload = _encode(state)
    return _FORM + _sum(name, payload) + payload


def open_state(name: str, sealed: bytes) -> ConversationState | None:
    """Return the state that was sealed; None if these are not the bytes."""
    payload = sealed[len(_FORM) + _SUM_BYTES :]
    if sealed[: -len(payload) or None] != _FORM + _sum(name, payload):
        return None
    try:
        state = _decode(payload)
    except msgspec.DecodeError:
        return None
    count = len(state.baselines)
    numbers = [*state.latest, *(n for place in state.places for n in place.baselines)]
    return state if all(0 <= number < count for number in numbers) else None


def _sum(name: str, payload: bytes) -> bytes:
    return xxhash.xxh3_64_digest(name.encode() + b"\0" + payload)
