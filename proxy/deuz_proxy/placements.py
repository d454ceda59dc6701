"""What is told of what was added: each block on the surface, and working memory.

Rules:
- Where it sits and which records are in it, by id; never a text.
- Blocks that were put back are told as they were the last time.
"""

from collections.abc import Sequence

from deuz_compiler import Append, TailCopy
from deuz_proxy.calls import ByTurn, Call, Compiled
from deuz_proxy.observe.events import Placement

_PLACED = "placed"


def tell_placements(
    call: Call, compiled: Compiled, *, is_accepted: bool
) -> tuple[Placement, ...]:
    """Return what stands on the surface of this request."""
    surface, standing = compiled.surface, compiled.standing
    if surface is None:
        return ()
    if standing is not None and standing.told:
        return standing.told
    is_tried, pending = call.target.mode == "shadow", compiled.pending

    def state(word: str, *, is_new: bool) -> str:
        if is_tried:
            return "shadow"
        # What was placed before stays in the ledger, whatever became of this request.
        is_dropped = is_new and not is_accepted and word != "tail"
        return "dropped" if is_dropped else word

    stays, comes = state(_PLACED, is_new=False), state(_PLACED, is_new=True)
    appended = [(block.turn, block.append) for block in surface.blocks]
    blocks = _tell_blocks(appended, pending, stays, comes)
    copies = [
        _told(each.turn, each.copy, each.copy.records, is_new=is_new, state=told)
        for each in surface.copies
        for is_new in (each.turn in pending,)
        for told in (state("kept", is_new=is_new),)
    ]
    tail = compiled.tail
    if tail is None or tail.is_kept:
        return (*blocks, *copies)
    turn = tail.ending.turn
    told = state("tail", is_new=turn in pending)
    ends = _told(turn, tail.ending.append, tail.records, is_new=True, state=told)
    return (*blocks, *copies, ends)


def tell_stood(operations: ByTurn) -> tuple[Placement, ...]:
    """Return what is told of blocks that stood before, of operations in their order."""
    blocks = [
        (turn, operation)
        for turn, held in operations.items()
        for operation in held
        if type(operation) is Append
    ]
    return _tell_blocks(blocks, {}, _PLACED, _PLACED)


def _tell_blocks(
    blocks: Sequence[tuple[int, Append]], pending: ByTurn, stays: str, comes: str
) -> tuple[Placement, ...]:
    told = []
    for turn, append in blocks:
        records = []
        # Of each block there are a few: to list them at once would be a call.
        for record in append.records:
            records.append(f"{record.source}/{record.record_id}")  # noqa: PERF401
        is_new = turn in pending
        tokens, state = append.tokens, comes if is_new else stays
        placed = Placement(turn, tuple(records), tokens, is_new, append.form, state)
        told.append(placed)
    return tuple(told)


def _told(
    turn: int,
    text: Append | TailCopy,
    records: tuple[str, ...],
    *,
    is_new: bool,
    state: str,
) -> Placement:
    return Placement(turn, records, text.tokens, is_new, text.form, state)
