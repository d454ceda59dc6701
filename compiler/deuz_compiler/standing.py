"""What stands on a history, so that its next request puts it back instead of laying it.

Rules:
- It is what projecting anew would give: it saves time only.
- It holds places and hashes, but none of the texts: those are the ledger's, and what
  the ledger holds now decides whether it still stands. Of a ledger in the process it
  holds entries, which the ledger empties as soon as they are not what it holds.
- Only blocks stand: one behind a turn, each in one insertion. What shortens a history,
  and working memory in it, is projected anew.
"""

import struct
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import xxhash

from deuz_compiler.operations import Append, Bare, Operation
from deuz_compiler.placement.laws import PART, append_edits
from deuz_compiler.prefix import DIGEST_BYTES, Prefix
from deuz_compiler.surface import Block, Element, Operations, Run, Surface
from deuz_compiler.wires.envelope import LONG_BYTES, Edit, Envelope, Spliced, splice
from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.turns import TOKEN_BYTES, pack_tokens

_SOUGHT_BYTES = 64


class Held(Protocol):
    """An entry of a ledger; one that the ledger holds no more has no operations."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What it holds."""


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What a ledger held of a history: its entries, by turn among the first `count`.

    Nothing else was held of those. `version` is the ledger's, which has another one
    when it holds anything else. None of the entries was used last before `used_at`.
    """

    held: dict[int, Held]
    count: int
    version: int = 0
    used_at: float = 0.0


class Marks(msgspec.Struct, frozen=True, gc=False):
    """Where blocks stand, in their order: behind which turn, at which byte.

    `places` are packed, 8 bytes each; `before` and `behind` frame every text, `digests`
    are the texts' own. `elements` are their places in the outbound prefix, packed, 4
    bytes each: nothing where one is among leading turns, which are no part of it.
    """

    turns: tuple[int, ...]
    places: bytes
    before: bytes
    behind: bytes
    digests: tuple[bytes, ...]
    elements: bytes


class Standing(msgspec.Struct, frozen=True, gc=False):
    """All that stands on the first `turns` turns of a history, `lead` of them leading.

    `pieces` are the surface's up to the last block. `inbound` and `outbound` are the
    prefixes of a whole request of `count` turns. `reading` is what these blocks were
    read from, if it may be gone on with; `told` is what was told of them, once it was.
    """

    marks: Marks
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
    ours = surface.ours(envelope.lead)
    marks = _marks(surface, ours)
    if marks is None or marks.turns[-1] >= turns:
        return None
    pieces = surface.pieces
    return Standing(
        marks,
        pieces[:-1] if isinstance(pieces[-1], Run) else pieces,
        ours,
        turns,
        envelope.lead,
        len(envelope.turns.kinds),
        inbound,
        outbound,
    )


def _marks(surface: Surface, ours: tuple[tuple[int, int], ...]) -> Marks | None:
    """Return where the blocks stand; None where one is no insertion like the others."""
    blocks, edits = surface.blocks, surface.edits
    if not blocks or surface.copies or len(blocks) != len(edits):
        return None
    texts = [block.append.text for block in blocks]
    # By its start: to find all of it takes longer than all else here.
    at = edits[0].text.find(texts[0][:_SOUGHT_BYTES])
    before, behind = edits[0].text[:at], edits[0].text[at + len(texts[0]) :]
    for text, edit in zip(texts, edits, strict=True):
        if edit.start != edit.end or edit.text != before + text + behind:
            return None
    return Marks(
        tuple([block.turn for block in blocks]),
        struct.pack(f"={len(edits)}Q", *[edit.start for edit in edits]),
        before,
        behind,
        tuple(map(xxhash.xxh3_128_digest, texts)),
        pack_tokens([place for place, _ in ours]) if ours[0][0] >= 0 else b"",
    )


def put_back(
    standing: Standing, envelope: Envelope, operations: Operations
) -> Surface | None:
    """Return the surface of a request that begins with what this stands on.

    It has no edits: `put_again` writes them. None if the operations are not those whose
    blocks stand: then it is to be projected.
    """
    blocks, marks = _blocks(operations), standing.marks
    if blocks is None or not _are_those(blocks, marks):
        return None
    pieces = _pieces(standing, envelope)
    return Surface((), pieces, tuple(blocks), (), envelope.turns)


def put_more(
    standing: Standing, envelope: Envelope, inbound: Prefix, operations: Operations
) -> tuple[Surface, Standing] | None:
    """Return the surface with one block behind those that stand, and what then stands.

    None if the operations are others, or the block is not framed like the others: then
    it is to be projected. `inbound` is the plain prefix.
    """
    blocks, known = _blocks(operations), standing.marks
    if not blocks or blocks[-1].turn < standing.turns:
        return None
    *stood, new = blocks
    turn, append = new.turn, new.append
    texts, before, behind = [append.text], known.before, known.behind
    if append.form == PART:
        edits = append_edits(envelope, turn, parts=texts)
    else:
        edits = append_edits(envelope, turn, turns=texts)
    at = edits[0].start
    is_alike = edits == (Edit(at, at, before + append.text + behind),)
    if not (is_alike and _are_those(stood, known)):
        return None
    digest = xxhash.xxh3_128_digest(append.text)
    count, lead = len(envelope.turns.kinds), standing.lead
    place = turn + 1 - lead + len(stood)
    marks = Marks(
        (*known.turns, turn),
        known.places + struct.pack("=Q", at),
        before,
        behind,
        (*known.digests, digest),
        known.elements and known.elements + pack_tokens([place]),
    )
    element = Element(digest, append.tokens, turn, is_ours=True)
    more = Standing(
        marks,
        (*standing.pieces, Run(known.turns[-1] + 1, turn + 1), element),
        (*standing.ours, (place, append.tokens)),
        count,
        lead,
        count,
        inbound,
        _with_element(prefix_again(standing, inbound), element, count - turn - 1),
    )
    pieces = _pieces(more, envelope)
    return Surface((), pieces, tuple(blocks), (), envelope.turns), more


def _with_element(prefix: Prefix, element: Element, behind: int) -> Prefix:
    """Return the prefix with one element more, ahead of its last so many ones."""
    at = prefix.count - behind
    digests, tokens = prefix.digests, prefix.tokens
    own, size = element.digest[:DIGEST_BYTES], pack_tokens([element.tokens])
    start, end = at * DIGEST_BYTES, at * TOKEN_BYTES
    return msgspec.structs.replace(
        prefix,
        digests=digests[:start] + own + digests[start:],
        tokens=tokens[:end] + size + tokens[end:],
        history_tokens=prefix.history_tokens + element.tokens,
    )


def _are_those(blocks: Sequence[Block], marks: Marks) -> bool:
    """Tell whether these are the blocks that stand, by their texts."""
    if tuple([block.turn for block in blocks]) != marks.turns:
        return False
    digests = [xxhash.xxh3_128_digest(block.append.text) for block in blocks]
    return tuple(digests) == marks.digests


def put_again(
    standing: Standing, body: bytes, operations: Operations
) -> bytes | Spliced:
    """Return the body with the blocks, of operations that were put back last as well.

    They need not be looked at: these are the very values that stood.
    """
    marks = standing.marks
    try:
        # A block is the last of what its turn has.
        texts = [operations[turn][-1].text for turn in marks.turns]  # type: ignore[union-attr]  # See below.
    except AttributeError:
        texts = [block.append.text for block in _blocks(operations) or ()]
    places, before, behind = marks.places, marks.before, marks.behind
    if SCANNER and len(body) < LONG_BYTES:
        return SCANNER.splice(body, places, before, behind, texts)
    placed = zip(_numbers(places), texts, strict=True)
    return splice(body, [Edit(at, at, before + text + behind) for at, text in placed])


def _numbers(places: bytes) -> tuple[int, ...]:
    return struct.unpack(f"={len(places) // 8}Q", places)


def stays(standing: Standing, envelope: Envelope) -> Surface:
    """Return the surface of a request that all is put again in, without its blocks."""
    return Surface((), _pieces(standing, envelope), (), (), envelope.turns)


def _pieces(standing: Standing, envelope: Envelope) -> tuple[Run | Element, ...]:
    first, count = standing.marks.turns[-1] + 1, len(envelope.turns.kinds)
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
    old, own = standing.outbound, standing.turns - standing.lead
    digests, tokens = old.digests, old.tokens
    # None, where the last request merely goes on.
    if left := standing.count - standing.turns:
        digests = digests[: -left * DIGEST_BYTES]
        tokens = tokens[: -left * TOKEN_BYTES]
    return Prefix(
        inbound.model,
        inbound.params,
        inbound.tools,
        inbound.system,
        digests + inbound.digests[own * DIGEST_BYTES :],
        tokens + inbound.tokens[own * TOKEN_BYTES :],
        inbound.history_tokens + old.history_tokens - standing.inbound.history_tokens,
        inbound.is_params_last,
    )


def gone_on(
    standing: Standing,
    envelope: Envelope,
    inbound: Prefix,
    outbound: Prefix,
    *,
    turns: int,
    reading: Reading | None = None,
) -> Standing | None:
    """Return what stands on a request that it was put back in; None if that is not all.

    `turns` is how many of its turns it is asked of. `reading` is the request's own: an
    older one does not tell what the turns held that are new in it.
    """
    if standing.marks.turns[-1] >= turns:
        return None
    return Standing(
        standing.marks,
        standing.pieces,
        standing.ours,
        turns,
        standing.lead,
        len(envelope.turns.kinds),
        inbound,
        outbound,
        reading and _cut(reading, turns),
        standing.told,
    )


def standing_up_to(standing: Standing, turns: int) -> Standing | None:
    """Return what stands on the first turns alone; None if that is not all."""
    if standing.marks.turns[-1] >= turns:
        return None
    reading = standing.reading
    left = reading and _cut(reading, turns)
    return msgspec.structs.replace(standing, turns=turns, reading=left)


def _cut(reading: Reading, count: int) -> Reading:
    """Return what was held of the first `count` turns, all of which were read."""
    if count == reading.count:
        return reading
    held = reading.held
    if count < reading.count and held and next(reversed(held)) >= count:
        held = {at: entry for at, entry in held.items() if at < count}
    return Reading(held, count, reading.version, reading.used_at)
