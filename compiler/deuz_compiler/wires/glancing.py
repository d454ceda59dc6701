"""What a turn is at a glance: by how its members look, without reading their values.

Rules:
- A signature says of some named members how their values look, and which role stands
  there: four bits for the role, then three for each name behind the first.
- Turns with one signature are one kind of turn: it is read once, from a sample.
- A glance is enough only where the content is a text, or nothing, and no marker is
  there: then the turn is rendered as it stands. All others are read.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec

UNCLEAR = -1
"""The signature of a turn that is to be read."""

_ROLE_BITS, _LOOK_BITS = 4, 3
# How a value looks, by the scanner's numbers: a sample of each, "" where there is none.
_SAMPLES = ("", "null", '""', '"a"', "[]", "[{}]", "{}", "0")
_ABSENT = 0
_TEXTS = range(4)


class Peek(msgspec.Struct, frozen=True, gc=False):
    """What one turn is: wire-neutral role, fresh user text, calls left open."""

    role: str
    is_fresh: bool
    opens_calls: bool


Read = Callable[[bytes], tuple[Peek, bytes]]


class Glance(msgspec.Struct, frozen=True):
    """Which members of a turn to look at. Made by `make_glance`.

    `names` are in the order in which a signature tells of them, the role's first, the
    content's second; `spec` has names and roles as the scanner takes them.
    """

    roles: tuple[str, ...]
    names: tuple[str, ...]
    bars: tuple[str, ...]
    spec: tuple[bytes, bytes]


NO_GLANCE = Glance((), (), (), (b"", b""))


def make_glance(
    *,
    roles: tuple[str, ...],
    text: str,
    seen: tuple[str, ...] = (),
    bars: tuple[str, ...] = (),
) -> Glance:
    """Return what to look at: `text` is a turn's content.

    Of the `seen` it only matters how they look; with one of the `bars` there, or a role
    that is not listed, a turn is to be read. All are plain ASCII.
    """
    names = ("role", text, *seen, *bars)
    return Glance(roles, names, bars, (_words(names), _words(roles)))


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
        if name in glance.bars or (name == glance.names[1] and look not in _TEXTS):
            return None
        members.append(f'"{name}":{_SAMPLES[look]}')
    return read(f"{{{','.join(members)}}}".encode())[0]


def _words(words: tuple[str, ...]) -> bytes:
    return b"".join([word.encode() + b"\0" for word in words])
