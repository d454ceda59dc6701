"""The surface: what the model sees is the client's history plus our operations on it.

Rules:
- An operation is stored, with exact bytes, under the lineage of the last turn it
  touches.
- The same history always projects to the same surface.
- Folded turns take their blocks and stubs with them; the longest known fold wins. What
  it keeps stands behind its summary, with blocks and stubs.
- Every edit lies behind tools and leading system text; they are never touched.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import xxhash

from deuz_compiler.operations import (
    Append,
    Fold,
    Operation,
    Prune,
    TailCopy,
    in_force,
    longest_fold,
)
from deuz_compiler.pieces import Element, Ours, Pieces, Run, ours_of
from deuz_compiler.placement.laws import (
    PART,
    TURN,
    append_edits,
    fold_edits,
    joins_turn,
)
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.wires.envelope import Edit, Envelope, lower
from deuz_compiler.wires.turns import NO_TURNS, Turns

Operations = Mapping[int, Sequence[Operation]]
PartSpan = Callable[[str, bytes, int], tuple[int, int]]

# Tuples, not unions: those would be made anew for each operation looked at.
_APPENDED = (Append, TailCopy)
_SHOWN = (*_APPENDED, Prune)


class Block(msgspec.Struct, frozen=True, gc=False):
    """A block on the surface and the turn it stands behind."""

    turn: int
    append: Append


class Copied(msgspec.Struct, frozen=True, gc=False):
    """A copy of working memory on the surface and the turn it stands behind."""

    turn: int
    copy: TailCopy


class Ending(msgspec.Struct, frozen=True, gc=False):
    """Text that ends this request alone, behind the turn; it is no part of a prefix."""

    turn: int
    append: Append


class Surface(msgspec.Struct, frozen=True, gc=False):
    """A projected request: the edits and what the model will see of the history.

    `pieces` are what it sees, in order: the client's `turns` in runs, and what is ours.
    Behind them, the turns from `rest` on stand as they are.
    """

    edits: tuple[Edit, ...]
    pieces: tuple[Run | Element, ...]
    blocks: tuple[Block, ...]
    copies: tuple[Copied, ...] = ()
    turns: Turns = NO_TURNS
    rest: int = 0
    folded: tuple[int, int] | None = None
    fold: Fold | None = None

    @property
    def all_pieces(self) -> tuple[Run | Element, ...]:
        """What the model will see, to the end."""
        return (*self.pieces, Run(self.rest, len(self.turns.kinds)))

    @property
    def elements(self) -> tuple[Element, ...]:
        """Every element one by one: as many as the history has turns, and more."""
        elements: list[Element] = []
        for piece in self.all_pieces:
            if isinstance(piece, Element):
                elements.append(piece)
            else:
                for at in range(piece.start, piece.end):
                    turn = self.turns[at]
                    plain = Element(turn.digest, turn.tokens, at, is_ours=False)
                    elements.append(plain)
        return tuple(elements)

    def ours(self, lead: int) -> Ours:
        """Return place and tokens of what is ours, counted behind the leading turns."""
        return ours_of(self.pieces, lead)

    @property
    def placed(self) -> tuple[PlacedRecord, ...]:
        """The records that really are in the outgoing body."""
        return tuple(r for block in self.blocks for r in block.append.records)


def project(
    envelope: Envelope,
    operations: Operations,
    part_span: PartSpan,
    *,
    ending: Ending | None = None,
) -> Surface:
    """Apply the operations, keyed by turn index, to the client's history.

    The ending is written, but is neither an element nor a block. The cost is of the
    edits, however long the history.
    """
    operations = in_force(envelope.turns, operations)
    fold_at, fold = longest_fold(len(envelope.turns), operations)
    first = fold_at - fold.turns + 1 if fold else 0
    joined_at = _joined_turn(envelope, operations, fold_at, fold)
    edits: list[Edit] = []
    pieces = Pieces()
    placed: list[tuple[int, Append | TailCopy]] = []
    written = _with_ending(operations, ending)
    for index in _touched(envelope, written, first, fold_at, fold):
        if fold and index == first:
            edits += _fold(envelope, written, fold_at, fold, part_span)
            pieces.replace(index, fold_at, _ours(fold.text, fold.tokens, fold_at))
            for turn in kept_turns(fold, fold_at):
                stubs = _stub_edits(envelope, turn, written.get(turn, ()), part_span)
                pieces.keep(turn, _stubbed(envelope, turn, stubs) if stubs else None)
                pieces.add(turn, _put(operations, turn, placed))
            continue
        stubs = _stub_edits(envelope, index, written[index], part_span)
        edits += stubs
        if stubs:
            pieces.replace(index, index, _stubbed(envelope, index, stubs))
        if index != joined_at:
            edits += _appends(envelope, index, _appended(written, index))
        pieces.add(index, _put(operations, index, placed))
    return Surface(
        edits=tuple(edits),
        pieces=tuple(pieces.told),
        blocks=tuple([Block(t, o) for t, o in placed if isinstance(o, Append)]),
        copies=tuple([Copied(t, o) for t, o in placed if isinstance(o, TailCopy)]),
        turns=envelope.turns,
        rest=pieces.rest,
        folded=(first, fold_at) if fold else None,
        fold=fold,
    )


def kept_turns(fold: Fold, fold_at: int) -> tuple[int, ...]:
    """Return the turns that stand behind the summary of the fold at this turn."""
    return tuple([fold_at - back for back in fold.kept])


def _touched(
    envelope: Envelope,
    operations: Operations,
    first: int,
    fold_at: int,
    fold: Fold | None,
) -> list[int]:
    """Return the turns that something is done to, in order; of a fold, its first."""
    inside = range(first, fold_at + 1) if fold else range(0)
    last = len(envelope.turns)
    touched = [
        index
        for index, held in operations.items()
        for operation in held
        if isinstance(operation, _SHOWN) and index < last and index not in inside
    ]
    return sorted(dict.fromkeys([*touched, first] if fold else touched))


def _appended(operations: Operations, index: int) -> list[Append | TailCopy]:
    return [o for o in operations.get(index, ()) if isinstance(o, _APPENDED)]


def _with_ending(operations: Operations, ending: Ending | None) -> Operations:
    if ending is None:
        return operations
    held = operations.get(ending.turn, ())
    return {**operations, ending.turn: (*held, ending.append)}


def _appends(
    envelope: Envelope, index: int, appended: Sequence[Append | TailCopy]
) -> tuple[Edit, ...]:
    """Return the edits of each form, in the order of their places."""
    if not appended:
        return ()
    parts = [operation.text for operation in appended if operation.form == PART]
    turns = [operation.text for operation in appended if operation.form == TURN]
    return append_edits(envelope, index, parts=parts, turns=turns)


def _joined_turn(
    envelope: Envelope, operations: Operations, fold_at: int, fold: Fold | None
) -> int | None:
    """Return the turn that the fold's summary joins; its blocks go with the fold.

    Behind a block that is a turn of its own, the summary is one too.
    """
    if fold is None:
        return None
    first = fold_at - fold.turns + 1
    if not joins_turn(envelope, first, form=fold.form):
        return None
    forms = [operation.form for operation in _appended(operations, first - 1)]
    return None if TURN in forms else first - 1


def _put(
    operations: Operations, turn: int, placed: list[tuple[int, Append | TailCopy]]
) -> list[Element]:
    """Return what is ours behind the turn, as elements; note it as placed."""
    appended = _appended(operations, turn)
    placed += [(turn, each) for each in appended]
    return [_ours(each.text, each.tokens, turn) for each in appended]


def _fold(
    envelope: Envelope,
    operations: Operations,
    fold_at: int,
    fold: Fold,
    part_span: PartSpan,
) -> tuple[Edit, ...]:
    first = fold_at - fold.turns + 1
    joined = _joined_turn(envelope, operations, fold_at, fold)
    blocks = [] if joined is None else _appended(operations, joined)
    *before, last = fold_edits(
        envelope,
        first,
        fold_at,
        texts=[*(block.text for block in blocks), fold.text],
        form=TURN if joined is None else PART,
    )
    kept = [
        b"," + _kept(envelope, turn, operations, part_span)
        for turn in kept_turns(fold, fold_at)
    ]
    # The last edit ends with the run: what follows its text stands behind the summary.
    return (*before, Edit(last.start, last.end, last.text + b"".join(kept)))


def _kept(
    envelope: Envelope, index: int, operations: Operations, part_span: PartSpan
) -> bytes:
    """Return the bytes of a turn with its stubs and with what stands behind it."""
    turn = envelope.turns[index]
    stubs = _stub_edits(envelope, index, operations.get(index, ()), part_span)
    edits = (*stubs, *_appends(envelope, index, _appended(operations, index)))
    start = turn.start
    moved = tuple([Edit(e.start - start, e.end - start, e.text) for e in edits])
    return lower(envelope.body[start : turn.end], moved)


def _ours(text: bytes, tokens: int, turn: int) -> Element:
    return Element(xxhash.xxh3_128_digest(text), tokens, turn, is_ours=True)


def _stub_edits(
    envelope: Envelope,
    index: int,
    operations: Sequence[Operation],
    part_span: PartSpan,
) -> list[Edit]:
    edits = []
    for operation in operations:
        if isinstance(operation, Prune):
            turn = envelope.turns[index]
            raw = envelope.body[turn.start : turn.end]
            for part, text in operation.stubs:
                start, end = part_span(envelope.wire, raw, part)
                edits.append(Edit(turn.start + start, turn.start + end, text))
    return edits


def _stubbed(envelope: Envelope, index: int, stubs: Sequence[Edit]) -> Element:
    turn = envelope.turns[index]
    digest = xxhash.xxh3_128_digest(turn.digest + b"".join(e.text for e in stubs))
    removed = sum(e.end - e.start - len(e.text) for e in stubs)
    size = max(1, turn.end - turn.start)
    tokens = turn.tokens - turn.tokens * min(removed, size) // size
    return Element(digest, tokens, index, is_ours=True)
