"""What stands on a history, so that its next request puts it back instead of laying it.

Rules:
- It is what projecting anew would give: it saves time only.
- It holds places and hashes, but none of the texts: those are the ledger's, and what
  the ledger holds now decides whether it still stands. Of a ledger in the process it
  holds entries, which the ledger empties as soon as they are not what it holds.
- Only blocks stand: one behind a turn, each in one insertion. What shortens a history,
  and working memory in it, is projected anew.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec
import xxhash

from deuz_compiler.operations import Append, Bare, Operation
from deuz_compiler.prefix import DIGEST_BYTES, Prefix
from deuz_compiler.surface import Block, Element, Operations, Run, Surface
from deuz_compiler.wires.envelope import Edit, Envelope
from deuz_compiler.wires.turns import TOKEN_BYTES

_SHORT_BYTES = 4096


class Held(Protocol):
    """An entry of a ledger; one that the ledger holds no more has no operations."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it holds."""


class Reading(msgspec.Struct, gc=False):
    """What a ledger held of a history: its entries, by turn among the first `count`.

    Nothing else was held of those. `version` is the ledger's, which has another one
    when it holds anything else, and notes it here when it sees that this is the same.
    """

    held: dict[int, Held]
    count: int
    version: int = 0


class Mark(msgspec.Struct, frozen=True, gc=False):
    """Where a block stands: behind which turn, at which byte, and between what."""

    turn: int
    at: int
    before: bytes
    behind: bytes
    digest: bytes


class Standing(msgspec.Struct, frozen=True, gc=False):
    """All that stands on the first `turns` turns of a history, `lead` of them leading.

    `pieces` are the surface's up to the last block. `inbound` and `outbound` are the
    prefixes of a whole request of `count` turns. `reading` is what these blocks were
    read from, if it may be gone on with; `told` is what was told of them, once it was.
    """

    marks: tuple[Mark, ...]
    pieces: tuple[Run | Element, ...]
    ours: tuple[tuple[int, int], ...]
    turns: int
    lead: int
    count: int
    inbound: Prefix
    outbound: Prefix
    reading: Reading | None = None
    told: tuple[Any, ...] = ()


def standing_of(
    envelope: Envelope,
    surface: Surface,
    inbound: Prefix,
    outbound: Prefix,
    *,
    turns: int,
) -> Standing | None:
    """Return what stands on a request's first `turns` turns; None if that is not all.

    `outbound` is its prefix with the surface, `inbound` the plain one.
    """
    marks = tuple(_marks(surface))
    if not marks or len(marks) != len(surface.edits) or marks[-1].turn >= turns:
        return None
    pieces = surface.pieces
    return Standing(
        marks,
        pieces[:-1] if isinstance(pieces[-1], Run) else pieces,
        surface.ours(envelope.lead),
        turns,
        envelope.lead,
        len(envelope.turns),
        inbound,
        outbound,
    )


def _marks(surface: Surface) -> Iterator[Mark]:
    """Yield a mark for each block, up to one that is not in an insertion of its own."""
    if surface.copies or len(surface.blocks) != len(surface.edits):
        return
    for block, edit in zip(surface.blocks, surface.edits, strict=True):
        text = block.append.text
        before, found, behind = edit.text.partition(text)
        if edit.start != edit.end or not found:
            return
        digest = xxhash.xxh3_128_digest(text)
        yield Mark(block.turn, edit.start, before, behind, digest)


def put_back(
    standing: Standing, envelope: Envelope, operations: Operations
) -> Surface | None:
    """Return the surface of a request that begins with what this stands on.

    None if the operations are not those whose blocks stand: then it is to be projected.
    """
    blocks = _blocks(operations)
    if blocks is None or len(blocks) != len(standing.marks):
        return None
    digest_of = xxhash.xxh3_128_digest
    for mark, block in zip(standing.marks, blocks, strict=True):
        if block.turn != mark.turn or digest_of(block.append.text) != mark.digest:
            return None
    return _surface(standing, envelope, blocks)


def put_again(standing: Standing, body: bytes, operations: Operations) -> bytes:
    """Return the body with the blocks, of operations that were put back last as well.

    They need not be looked at: these are the very values that stood.
    """
    # Views of long pieces, which are copied once, into their place; a short one is
    # copied sooner than a view of it is made.
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = 0
    for mark in standing.marks:
        at = mark.at
        source = body if at - position < _SHORT_BYTES else view
        for operation in operations[mark.turn]:
            if type(operation) is Append:
                text = operation.text
                pieces += source[position:at], mark.before, text, mark.behind
        position = at
    pieces.append(view[position:])
    return b"".join(pieces)


def stays(standing: Standing, envelope: Envelope) -> Surface:
    """Return the surface of a request that all is put again in, without its blocks."""
    return Surface((), _pieces(standing, envelope), (), (), envelope.turns)


def _surface(
    standing: Standing, envelope: Envelope, blocks: Sequence[Block]
) -> Surface:
    edits = [
        Edit(at := mark.at, at, mark.before + block.append.text + mark.behind)
        for mark, block in zip(standing.marks, blocks, strict=True)
    ]
    pieces = _pieces(standing, envelope)
    return Surface(tuple(edits), pieces, tuple(blocks), (), envelope.turns)


def _pieces(standing: Standing, envelope: Envelope) -> tuple[Run | Element, ...]:
    first, count = standing.marks[-1].turn + 1, len(envelope.turns)
    return (*standing.pieces, Run(first, count)) if first < count else standing.pieces


def _blocks(operations: Operations) -> list[Block] | None:
    """Return the blocks of the operations, if they are nothing else."""
    blocks = []
    for turn, held in operations.items():
        for operation in held:
            if type(operation) is Append:
                blocks.append(Block(turn, operation))
            elif type(operation) is not Bare:
                return None
    return blocks


def prefix_again(standing: Standing, inbound: Prefix) -> Prefix:
    """Return the prefix with what was put back; `inbound` is the plain one."""
    old, plain = standing.outbound, standing.inbound
    left = standing.count - standing.turns
    own = standing.turns - standing.lead
    kept = old.count - left
    return msgspec.structs.replace(
        inbound,
        digests=old.digests[: kept * DIGEST_BYTES]
        + inbound.digests[own * DIGEST_BYTES :],
        tokens=old.tokens[: kept * TOKEN_BYTES] + inbound.tokens[own * TOKEN_BYTES :],
        history_tokens=inbound.history_tokens
        + old.history_tokens
        - plain.history_tokens,
    )


def gone_on(
    standing: Standing,
    envelope: Envelope,
    inbound: Prefix,
    outbound: Prefix,
    *,
    turns: int,
    told: tuple[Any, ...] = (),
) -> Standing | None:
    """Return what stands on a request that it was put back in; None if that is not all.

    `turns` is how many of its turns it is asked of. All of them hold what they held at
    its reading, where it has one, and nothing else.
    """
    if standing.marks[-1].turn >= turns:
        return None
    reading = standing.reading
    return Standing(
        standing.marks,
        standing.pieces,
        standing.ours,
        turns,
        standing.lead,
        len(envelope.turns),
        inbound,
        outbound,
        reading and _cut(reading, turns),
        told,
    )


def standing_up_to(standing: Standing, turns: int) -> Standing | None:
    """Return what stands on the first turns alone; None if that is not all."""
    if standing.marks[-1].turn >= turns:
        return None
    reading = standing.reading
    left = reading and _cut(reading, turns)
    return msgspec.structs.replace(standing, turns=turns, reading=left)


def _cut(reading: Reading, count: int) -> Reading:
    """Return what was held of the first `count` turns, all of which were read."""
    if count == reading.count:
        return reading
    held = reading.held
    if held and next(reversed(held)) >= count:
        held = {at: entry for at, entry in held.items() if at < count}
    return Reading(held, count, reading.version)
