"""What a turn is at a glance: by how its members look, without reading their values.

Rules:
- A signature says of some named members how their values look, and which role stands
  there: four bits for the role, then three for each name behind the first. Of a content
  that is a list it says which types its blocks have, and whether there are several.
- Turns with one signature are one kind of turn: it is read once, from a sample.
- A glance is enough only where the turn is rendered as it stands: no marker is there,
  and its content is a text, nothing, or blocks that are more than one text. All others
  are read.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

UNCLEAR = -1
"""The signature of a turn that is to be read."""

_ROLE_BITS, _LOOK_BITS = 4, 3
# How a value looks, by the scanner's numbers: a sample of each, "" where there is none.
_SAMPLES = ("", "null", '""', '"a"', "[]", "[{}]", "{}", "0")
_ABSENT, _LIST = 0, 5
_TEXTS, _LISTS = range(4), range(4, 6)
_TYPES_AT, _OTHER_TYPE, _NO_TYPE, _MANY = 40, 14, 15, 16


# Caches are asked by both at each request.
class Peek(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What one turn is: wire-neutral role, fresh user text, calls left open."""

    role: str
    is_fresh: bool
    opens_calls: bool


Read = Callable[[bytes], tuple[Peek, bytes]]


class Glance(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Which members of a turn to look at. Made by `make_glance`.

    `names` are in the order in which a signature tells of them, the role's first, the
    content's second; `spec` has names, roles, types and bars as the scanner takes them.
    """

    roles: tuple[str, ...]
    names: tuple[str, ...]
    bars: tuple[str, ...]
    types: tuple[str, ...]
    spec: tuple[bytes, bytes, bytes, bytes]


NO_GLANCE = Glance((), (), (), (), (b"", b"", b"", b""))


def make_glance(
    *,
    roles: tuple[str, ...],
    text: str,
    seen: tuple[str, ...] = (),
    bars: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
) -> Glance:
    """Return what to look at: `text` is a turn's content.

    Of the `seen` it only matters how they look; with one of the `bars` there, among
    blocks at whatever depth, or a role that is not listed, a turn is to be read. Of a
    list of blocks it only matters which of the `types` are there; without any, lists
    are to be read. All are plain ASCII.
    """
    names = ("role", text, *seen, *bars)
    spec = (_words(names), _words(roles), _words(types), _words(bars))
    return Glance(roles, names, bars, types, spec)


# Of each wire there are a few dozen that its clients send.
@lru_cache(maxsize=1_024)
def glance_at(glance: Glance, read: Read, signature: int) -> Peek | None:
    """Return what turns of this signature are; None if they are to be read.

    Raises:
        DecodeError: none of them is a turn of the wire.
    """
    if signature == UNCLEAR:
        return None
    role = glance.roles[signature & ((1 << _ROLE_BITS) - 1)]
    members = [f'"role":"{role}"']
    for at, name in enumerate(glance.names[1:], 1):
        look = signature >> (_ROLE_BITS + _LOOK_BITS * at) & ((1 << _LOOK_BITS) - 1)
        if look == _ABSENT:
            continue
        if name in glance.bars or (at == 1 and not _can_tell(glance, look)):
            return None
        is_listed = at == 1 and look == _LIST
        sample = _listed(glance, signature) if is_listed else _SAMPLES[look]
        members.append(f'"{name}":{sample}')
    turn = f"{{{','.join(members)}}}".encode()
    peek, rendered = read(turn)
    return peek if rendered == turn else None


def _can_tell(glance: Glance, look: int) -> bool:
    return look in _TEXTS or (look in _LISTS and bool(glance.types))


def _listed(glance: Glance, signature: int) -> str:
    """Return a content with a block of each type that is there."""
    found = signature >> _TYPES_AT
    names = [name for at, name in enumerate(glance.types) if found >> at & 1]
    blocks = [f'{{"type":"{name}","text":"a"}}' for name in names]
    if found >> _OTHER_TYPE & 1:
        blocks.append('{"type":"?"}')
    if found >> _NO_TYPE & 1:
        blocks.append("{}")
    if found >> _MANY & 1:
        blocks *= 2
    return f"[{','.join(blocks)}]" if blocks else "[ ]"


def _words(words: tuple[str, ...]) -> bytes:
    return b"".join([word.encode() + b"\0" for word in words])
