"""Which turns of the user's the ledger says nothing of, so that they are to stay bare.

Rules:
- A turn is decided once a block stands behind it, or it is said that none will.
"""

from collections.abc import Mapping, Sequence

from deuz_compiler import Append, Bare, Envelope, Operation

_DECIDING = frozenset({Append, Bare})


def undecided_turns(
    envelope: Envelope,
    operations: Mapping[int, tuple[Operation, ...]],
    *,
    since: int = 0,
) -> tuple[int, ...]:
    """Return those from `since` on, in their order; operations are held by turn."""
    fresh = envelope.turns.fresh_from(since)
    if not fresh:
        return ()
    # Asked here and not by name: each turn of the user's in a history is a call less.
    unsure = [
        index
        for index in fresh
        # Nearly always the only operation.
        if index not in operations or type(operations[index][0]) not in _DECIDING
    ]
    return tuple([turn for turn in unsure if not is_decided(operations.get(turn, ()))])


def is_decided(operations: Sequence[Operation]) -> bool:
    """Tell whether these, all of one turn, say what stands behind it."""
    return not _DECIDING.isdisjoint(map(type, operations))
