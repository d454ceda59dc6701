"""Lift a body whose history is a JSON array of turns.

Rules:
- Nothing is decoded that is not needed: values are found, not read.
- A body that starts like an earlier one of its conversation is resumed behind the last
  turn both share, so that the cost grows with the new bytes only.
- What cannot be understood raises `NotLifted`; it is never guessed.
"""

from collections.abc import Callable

import msgspec
import xxhash

from deuz_compiler.errors import NotLifted
from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.wires.envelope import (
    NO_FACTS,
    Envelope,
    Member,
    PathFacts,
    Span,
    Turn,
)
from deuz_compiler.wires.glancing import Peek, glance_at
from deuz_compiler.wires.members import object_members
from deuz_compiler.wires.parts import UNREADABLE
from deuz_compiler.wires.rendered import has_marker
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.scanning import Checkpoint, Elements, Members, scan

_LIST = b"["
# Markers move with the newest turns; what stands before them stays as it is.
_MARKED_TAIL = 8
_EMBEDDED_BYTES = 16_384
# Bytes of ten tokens. Measured with o200k over prose, code and JSON as written. Other
# scripts take 0.2 (Cyrillic) to 0.5 (emoji) of a token a byte: near enough for a figure
# that is not to cost more than reading the turn.
_RATE = 37
# A limit that no 64 bits hold limits nothing, and cannot be told.
_PAST_NUMBERS = 1 << 63


def hash_start(body: bytes, offset: int, digest: bytes) -> xxhash.xxh3_128 | None:
    """Return a hasher of the body up to there; None if that is not what is known."""
    if not 0 < offset < len(body):
        return None
    hasher = xxhash.xxh3_128(memoryview(body)[:offset])
    return hasher if hasher.digest() == digest else None


def lift_body(
    rules: Rules,
    body: bytes,
    *,
    seed: int = 0,
    known: Checkpoint | None = None,
    path: PathFacts = NO_FACTS,
) -> Envelope:
    """Return the places of the body's parts; `known` must be a prefix of the body.

    Raises:
        NotLifted: not JSON, a key stands twice, or a shape this wire does not have.
    """
    members, elements = scan(rules, body, known)
    turns = _read_turns(rules, body, elements, seed)
    whole = (*known.turns, *turns) if known else tuple(turns)
    return _envelope(rules, body, members, whole, path)


def _by_key(rules: Rules, body: bytes, members: Members) -> dict[str, Member]:
    if rules.spell is not None:
        members = _spelled(rules.spell, members)
    # A dot is ours: it says that a member stands inside another.
    by_key = {member.key: member for member in members if "." not in member.key}
    for name in rules.nested:
        outer = by_key.get(name)
        if outer and body.startswith(b"{", outer.start):
            text = body[outer.start : outer.end]
            inner = object_members(text, shift=outer.start)
            if rules.spell is not None:
                inner = _spelled(rules.spell, inner)
            by_key |= {f"{name}.{member.key}": member for member in inner}
    for name in rules.foreign:
        if _read_value(body, by_key.get(name)):
            raise NotLifted("unknown_shape")
    return by_key


def _spelled(spell: Callable[[str], str], members: Members) -> Members:
    spelled = tuple(Member(spell(m.key), m.start, m.end) for m in members)
    if len({member.key for member in spelled}) != len(spelled):
        raise NotLifted("duplicate_key")
    return spelled


def checkpoint_of(
    envelope: Envelope,
    *,
    seed: int = 0,
    hashed: tuple[int, xxhash.xxh3_128] | None = None,
) -> Checkpoint:
    """Return the checkpoint up to which the next request will most likely agree.

    `hashed` is a hasher that has taken that many bytes of the body: it is not changed.
    """
    body, turns = envelope.body, envelope.turns
    if not body.startswith(_LIST, envelope.history.start):
        # A text has no turn to resume behind: offset 0 is no body's prefix.
        return Checkpoint(0, b"", 0, (), (), seed)
    count = _count_unmarked(body, turns)
    offset = turns[count - 1].end if count else envelope.history.start + 1
    done, hasher = hashed or (0, xxhash.xxh3_128())
    if done > offset:
        done, hasher = 0, xxhash.xxh3_128()
    hasher = hasher.copy()
    hasher.update(memoryview(body)[done:offset])
    return Checkpoint(
        offset,
        hasher.digest(),
        envelope.history.start,
        envelope.before,
        turns[:count],
        seed,
    )


def _count_unmarked(body: bytes, turns: tuple[Turn, ...]) -> int:
    """Return how many turns stand ahead of the first of the last ones with a marker."""
    count = len(turns)
    first = max(0, count - _MARKED_TAIL)
    if count and has_marker(body[turns[first].start : turns[-1].end]):
        for index in range(first, count):
            if has_marker(body[turns[index].start : turns[index].end]):
                return index
    return count


def _read_turns(rules: Rules, body: bytes, elements: Elements, seed: int) -> list[Turn]:
    read, media, digest = rules.read, rules.media, xxhash.xxh3_128_digest
    glanced: dict[int, Peek | None] = {}
    turns: list[Turn] = []
    note, view = turns.append, memoryview(body)
    try:
        for start, end, signature in elements:
            if signature not in glanced:
                glanced[signature] = glance_at(rules.glance, read, signature)
            peek = glanced[signature]
            if peek is None:
                peek, rendered = read(body[start:end])
                key = digest(rendered, seed)
            else:
                key = digest(view[start:end], seed)
            size = end - start
            tokens = size * 10 // _RATE + 1
            # Embedded media would count as prose by its length: it is priced by kind.
            if size > _EMBEDDED_BYTES and body.find(media, start, end) >= 0:
                tokens = estimate_bytes(body[start:end])
            is_fresh, opens_calls = peek.is_fresh, peek.opens_calls
            note(Turn(start, end, peek.role, is_fresh, opens_calls, tokens, key))
    except UNREADABLE as fault:
        raise NotLifted("unknown_shape") from fault
    return turns


def quick_tokens(raw: bytes) -> int:
    """Return a turn's likely tokens from its length alone, for shares and sums.

    Calibration makes the sums true for each model.
    """
    return len(raw) * 10 // _RATE + 1


def _envelope(
    rules: Rules,
    body: bytes,
    found: Members,
    turns: tuple[Turn, ...],
    path: PathFacts,
) -> Envelope:
    members = _by_key(rules, body, found)
    lead = 0
    for turn in turns:
        if turn.role != "system":
            break
        lead += 1
    history = members[rules.history]
    return Envelope(
        wire=rules.wire,
        body=body,
        model=_model(rules, body, members, path),
        is_streamed=_is_streamed(rules, body, members, path),
        max_output_tokens=_read_limit(body, members, rules.output_limits),
        tools=_span(body, members.get("tools")),
        system=_span(body, members.get(rules.system) if rules.system else None),
        params=_params(rules, body, members),
        history=Span(history.start, history.end),
        before=tuple([m for m in found if m.end <= history.start]),
        turns=turns,
        lead=lead,
        is_params_last=rules.is_params_last,
        window_tokens=_read_limit(body, members, rules.windows),
        is_partial=rules.hidden in members,
        is_cached_to_end=_is_cached_to_end(rules, body, members),
    )


def _is_cached_to_end(rules: Rules, body: bytes, members: dict[str, Member]) -> bool:
    marker = members.get(rules.end_marker)
    return marker is not None and body.startswith(b"{", marker.start)


def _model(
    rules: Rules, body: bytes, members: dict[str, Member], path: PathFacts
) -> str:
    """Return the path's model, which is the one asked whatever the body says."""
    if path.model or not (rules.needs_model or "model" in members):
        return path.model
    return _read_string(body, members.get("model"))


def _is_streamed(
    rules: Rules, body: bytes, members: dict[str, Member], path: PathFacts
) -> bool:
    stream = _read_value(body, members["stream"]) if "stream" in members else None
    return path.is_streamed or stream is True or (rules.is_streamed and stream is None)


def _params(
    rules: Rules, body: bytes, members: dict[str, Member]
) -> tuple[tuple[str, Span], ...]:
    named = rules.params.intersection(members)
    if not named:
        return ()
    defaults = dict(rules.defaults)
    return tuple(
        (name, Span(members[name].start, members[name].end))
        for name in sorted(named)
        if _read_value(body, members[name]) not in (None, defaults.get(name))
    )


def _span(body: bytes, member: Member | None) -> Span | None:
    if member is None or body[member.start : member.end] == b"null":
        return None
    return Span(member.start, member.end)


def _read_value(body: bytes, member: Member | None) -> object:
    if member is None:
        return None
    try:
        return msgspec.json.decode(body[member.start : member.end])
    except UNREADABLE as fault:
        # A number that no float holds, or brackets in brackets without end.
        raise NotLifted("unknown_shape") from fault


def _read_string(body: bytes, member: Member | None) -> str:
    value = _read_value(body, member)
    if not isinstance(value, str):
        raise NotLifted("unknown_shape")
    return value


def _read_limit(
    body: bytes, members: dict[str, Member], names: tuple[str, ...]
) -> int | None:
    for name in names:
        if name not in members:
            continue
        value = _read_value(body, members[name])
        if isinstance(value, bool) or not isinstance(value, int):
            continue
        if 0 < value < _PAST_NUMBERS:
            return value
    return None
