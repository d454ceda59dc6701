"""What stands on a history, so that its next request puts it back instead of laying it.

Rules:
- It is what projecting anew would give: it saves time only.
- It holds places and hashes, packed, but none of the texts: those are the ledger's,
  and what the ledger holds now decides whether it still stands. Of a ledger in the
  process it holds entries, which the ledger empties as soon as they are not what it
  holds.
- Only blocks stand: one behind a turn, each in one insertion. What shortens a history,
  and working memory in it, is projected anew.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import xxhash

from deuz_compiler.operations import Append, Bare
from deuz_compiler.pieces import Element, Ours, Pieces
from deuz_compiler.placement.laws import PART, append_edits
from deuz_compiler.prefix import DIGEST_BYTES, Prefix
from deuz_compiler.reading import Reading
from deuz_compiler.surface import Block, Operations, Surface
from deuz_compiler.wires.envelope import LONG_BYTES, Edit, Envelope, Spliced, splice
from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.turns import DIGEST_BYTES as TURN_DIGEST_BYTES
from deuz_compiler.wires.turns import TOKEN_BYTES, pack_tokens, unpack_tokens

_SOUGHT_BYTES = 64


class Marks(msgspec.Struct, frozen=True, gc=False):
    """Where blocks stand, in their order: behind which turn, at which byte.

    `turns` are packed, 4 bytes each, the last one is `last`; `places`, 8 bytes each,
    and the texts' `digests`, 16 each. `frame` is what stands before and behind every
    text, `ours` are the blocks as elements of the outbound prefix.
    """

    turns: bytes
    last: int
    places: bytes
    frame: tuple[bytes, bytes]
    digests: bytes
    ours: Ours


class Standing(msgspec.Struct, frozen=True, gc=False):
    """All that stands on the first `turns` turns of a history, `lead` of them leading.

    `inbound` and `outbound` are the prefixes of a whole request of `count` turns.
    `reading` is what these blocks were read from, if it may be gone on with; `told` is
    what was told of them, once it was.
    """

    marks: Marks
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
    marks = _marks(surface, envelope.lead)
    if marks is None or marks.last >= turns:
        return None
    return Standing(
        marks,
        turns,
        envelope.lead,
        len(envelope.turns.kinds),
        inbound,
        outbound,
    )


def _marks(surface: Surface, lead: int) -> Marks | None:
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
        pack_tokens([block.turn for block in blocks]),
        blocks[-1].turn,
        struct.pack(f"={len(edits)}Q", *[edit.start for edit in edits]),
        _frame(before, behind),
        _digests(blocks),
        surface.ours(lead),
    )


# Of each form and API there is one, thousands of conversations have it.
@lru_cache(maxsize=256)
def _frame(before: bytes, behind: bytes) -> tuple[bytes, bytes]:
    """Return these, the same values for all who have them."""
    return before, behind


def _digests(blocks: Sequence[Block]) -> bytes:
    return b"".join([xxhash.xxh3_128_digest(block.append.text) for block in blocks])


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
    return surface_again(standing, envelope, tuple(blocks))


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
    texts, (before, behind) = [append.text], known.frame
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
    marks = Marks(
        known.turns + pack_tokens([turn]),
        turn,
        known.places + struct.pack("=Q", at),
        known.frame,
        known.digests + digest,
        known.ours.with_last(turn + 1 - lead + len(stood), append.tokens),
    )
    element = Element(digest, append.tokens, turn, is_ours=True)
    more = Standing(
        marks,
        count,
        lead,
        count,
        inbound,
        _with_element(prefix_again(standing, inbound), element, count - turn - 1),
    )
    return surface_again(more, envelope, tuple(blocks)), more


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
    is_there = pack_tokens([block.turn for block in blocks]) == marks.turns
    return is_there and _digests(blocks) == marks.digests


def put_again(standing: Standing, body: bytes, texts: list[bytes]) -> bytes | Spliced:
    """Return the body with the blocks that stand, whose texts these are.

    Raises:
        ValueError: there are more or fewer of them than stand.
    """
    marks = standing.marks
    places, (before, behind) = marks.places, marks.frame
    if SCANNER and len(body) < LONG_BYTES:
        return SCANNER.splice(body, places, before, behind, texts)
    placed = zip(_numbers(places), texts, strict=True)
    return splice(body, [Edit(at, at, before + text + behind) for at, text in placed])


def _numbers(places: bytes) -> tuple[int, ...]:
    return struct.unpack(f"={len(places) // 8}Q", places)


def surface_again(
    standing: Standing, envelope: Envelope, blocks: tuple[Block, ...] = ()
) -> Surface:
    """Return the surface of a request that all that stands is put in, without edits."""
    pieces, marks = Pieces(), standing.marks
    turns, tokens = unpack_tokens(marks.turns), unpack_tokens(marks.ours.tokens)
    for at, (turn, size) in enumerate(zip(turns, tokens, strict=True)):
        start = at * TURN_DIGEST_BYTES
        digest = marks.digests[start : start + TURN_DIGEST_BYTES]
        pieces.add(turn, [Element(digest, size, turn, is_ours=True)])
    told = tuple(pieces.told)
    return Surface((), told, blocks, (), envelope.turns, pieces.rest)


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
    if standing.marks.last >= turns:
        return None
    return Standing(
        standing.marks,
        turns,
        standing.lead,
        len(envelope.turns.kinds),
        inbound,
        outbound,
        reading and reading.up_to(turns),
        standing.told,
    )


def standing_up_to(standing: Standing, turns: int) -> Standing | None:
    """Return what stands on the first turns alone; None if that is not all."""
    if standing.marks.last >= turns:
        return None
    reading = standing.reading
    left = reading and reading.up_to(turns)
    return msgspec.structs.replace(standing, turns=turns, reading=left)
