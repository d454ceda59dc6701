"""Up to where a body's next request will most likely agree with it, byte for byte.

Rules:
- A checkpoint stands behind a turn, ahead of the first of the newest ones that has a
  cache marker: the next request has that elsewhere.
- A turn is looked at once: those that an earlier checkpoint tells of were.
"""

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.rendered import MARKS, has_marker
from deuz_compiler.wires.scanner import holds
from deuz_compiler.wires.scanning import Checkpoint
from deuz_compiler.wires.starts import Starts
from deuz_compiler.wires.turns import NO_TURNS, Turns

_LIST = b"["
# Markers move with the newest turns; what stands before them stays as it is.
_MARKED_TAIL = 8


def checkpoint_of(
    envelope: Envelope,
    starts: Starts,
    *,
    seed: int = 0,
    unmarked: Checkpoint | None = None,
) -> Checkpoint:
    """Return the checkpoint up to which the next request will most likely agree.

    `starts` are those of the envelope's body, `unmarked` is one of its start that holds
    no marker in the turns that are looked at.
    """
    body, turns, start = envelope.body, envelope.turns, envelope.history.start
    if not body.startswith(_LIST, start):
        # A text has no turn to resume behind: offset 0 is no body's prefix.
        return Checkpoint(0, b"", 0, (), NO_TURNS, seed)
    count, offset = _unmarked(body, turns, start + 1, unmarked)
    return Checkpoint(
        offset,
        starts.digest(offset),
        start,
        envelope.before,
        turns if count == len(turns.kinds) else turns[:count],
        seed,
        envelope.facts,
    )


def _unmarked(
    body: bytes, turns: Turns, start: int, known: Checkpoint | None
) -> tuple[int, int]:
    """Return how many turns stand ahead of the first with a marker, and their end.

    It is looked for among the last ones, behind those that are known to have none; the
    history's turns begin at `start`.
    """
    count = len(turns.kinds)
    if not count:
        return 0, start
    first, end = count - _MARKED_TAIL, turns.place(count - 1)[1]
    if known is not None and len(known.turns.kinds) >= first:
        first, at = len(known.turns.kinds), known.offset
    else:
        first = first if first > 0 else 0
        at = turns.place(first)[0]
    if holds(body, at, end, MARKS):
        for at in range(first, count):
            if has_marker(body, *turns.place(at)):
                return at, turns.place(at - 1)[1] if at else start
    return count, end
