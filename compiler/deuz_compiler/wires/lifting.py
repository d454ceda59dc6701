"""Lift a body whose history is a JSON array of turns.

Rules:
- Nothing is decoded that is not needed: values are found, not read.
- A body that starts like an earlier one of its conversation is resumed behind the last
  turn both share, so that the cost grows with the new bytes only.
- What cannot be understood raises `NotLifted`; it is never guessed.
"""

from collections.abc import Callable
from functools import lru_cache

import msgspec
import xxhash
from msgspec.structs import replace

from deuz_compiler.errors import NotLifted
from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.wires.envelope import (
    NO_FACTS,
    Envelope,
    Facts,
    Member,
    PathFacts,
    Span,
)
from deuz_compiler.wires.glancing import Glance, Peek, Read, glance_at
from deuz_compiler.wires.members import object_members
from deuz_compiler.wires.parts import UNREADABLE
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.scanning import (
    Checkpoint,
    Elements,
    Members,
    quick_tokens,
    scan,
)
from deuz_compiler.wires.turns import (
    DIGEST_BYTES,
    UNREAD,
    Turns,
    kind_of,
    most_tokens,
    pack_tokens,
    place_in,
    unpack_tokens,
)

_EMBEDDED_BYTES = 16_384
_EMBEDDED_TOKENS = quick_tokens(_EMBEDDED_BYTES)
# A limit that no 64 bits hold limits nothing, and cannot be told.
_PAST_NUMBERS = 1 << 63
_PLAIN_DIGITS = 18


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
    members, elements = scan(rules, body, known, seed=seed)
    start = known.offset if known else 0
    turns = _read_turns(rules, body, elements, seed, start=start)
    whole = known.turns.followed_by(turns) if known else turns
    return _envelope(rules, body, members, whole, path, known=known)


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


def _read_turns(
    rules: Rules, body: bytes, found: Elements, seed: int, *, start: int
) -> Turns:
    """Return what the turns are: by a glance, or, what is left then, by reading.

    They stand behind the first `start` bytes.
    """
    try:
        peeks, table = _glanced(rules.glance, rules.read, found.signatures)
        kinds, digests = found.kinds.translate(table), found.digests
        if UNREAD in kinds:
            found = replace(found, kinds=kinds)
            peeks, kinds, digests = _read_others(rules, body, found, peeks, seed)
    except UNREADABLE as fault:
        raise NotLifted("unknown_shape") from fault
    tokens = found.tokens
    if len(body) - start > _EMBEDDED_BYTES:
        tokens = _priced(rules, body, found)
    return Turns(peeks, kinds, found.places, tokens, digests)


# Conversations of one client have the same few signatures, in some order.
@lru_cache(maxsize=1_024)
def _glanced(
    glance: Glance, read: Read, signatures: tuple[int, ...]
) -> tuple[tuple[Peek, ...], bytes]:
    """Return what turns of these signatures are, and which of that each has.

    Raises:
        DecodeError: some are no turns of the wire.
    """
    peeks: list[Peek] = []
    kinds = []
    for signature in signatures:
        peek = glance_at(glance, read, signature)
        kinds.append(UNREAD if peek is None else kind_of(peek, peeks))
    return tuple(peeks), bytes(kinds).ljust(UNREAD + 1, bytes([UNREAD]))


def _read_others(
    rules: Rules, body: bytes, found: Elements, known: tuple[Peek, ...], seed: int
) -> tuple[tuple[Peek, ...], bytes, bytes]:
    """Return peeks, kinds and digests, those of the unread turns by reading each."""
    peeks = list(known)
    kinds, digests = bytearray(found.kinds), bytearray(found.digests)
    read, digest = rules.read, xxhash.xxh3_128_digest
    for index in found.unread():
        start, end = place_in(found.places, index)
        peek, rendered = read(body[start:end])
        kinds[index] = kind_of(peek, peeks)
        at = index * DIGEST_BYTES
        digests[at : at + DIGEST_BYTES] = digest(rendered, seed)
    return tuple(peeks), bytes(kinds), bytes(digests)


def _priced(rules: Rules, body: bytes, found: Elements) -> bytes:
    """Return the turns' tokens.

    Embedded media would count as prose by its length: it is priced by kind.
    """
    if most_tokens(found.tokens) < _EMBEDDED_TOKENS:
        return found.tokens
    counts = unpack_tokens(found.tokens)
    priced = list(counts)
    large = [index for index, count in enumerate(counts) if count >= _EMBEDDED_TOKENS]
    for index in large:
        start, end = place_in(found.places, index)
        is_large = end - start > _EMBEDDED_BYTES
        if is_large and body.find(rules.media, start, end) >= 0:
            priced[index] = estimate_bytes(body[start:end])
    return pack_tokens(priced)


def _envelope(
    rules: Rules,
    body: bytes,
    found: Members,
    turns: Turns,
    path: PathFacts,
    *,
    known: Checkpoint | None,
) -> Envelope:
    history, before = found[-1], known.before if known else ()
    facts = known.facts if known and path == NO_FACTS else None
    is_told_ahead = len(found) == len(before) + 1
    # An earlier body told all, where nothing stands but what stood in it.
    if facts is None or not is_told_ahead:
        members = _by_key(rules, body, found)
        history = members[rules.history]
        before = tuple([m for m in found if m.end <= history.start])
        facts = _facts(rules, body, members, path)
        is_told_ahead = len(found) == len(before) + 1 and path == NO_FACTS
    # In the order of its fields: by name, each is looked for among all of them.
    return Envelope(
        rules.wire,
        body,
        facts.model,
        facts.is_streamed,
        facts.max_output_tokens,
        facts.tools,
        facts.system,
        facts.params,
        Span(history.start, history.end),
        before,
        turns,
        turns.count_leading("system"),
        rules.is_params_last,
        facts.window_tokens,
        facts.is_partial,
        facts.is_cached_to_end,
        facts if is_told_ahead else None,
    )


def _facts(
    rules: Rules, body: bytes, members: dict[str, Member], path: PathFacts
) -> Facts:
    marker = members.get(rules.end_marker)
    return Facts(
        _model(rules, body, members, path),
        _is_streamed(rules, body, members, path),
        _read_limit(body, members, rules.output_limits),
        _span(body, members["tools"]) if "tools" in members else None,
        _span(body, members[rules.system]) if rules.system in members else None,
        _params(rules, body, members),
        _read_limit(body, members, rules.windows) if rules.windows else None,
        rules.hidden in members,
        marker is not None and body.startswith(b"{", marker.start),
    )


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
    defaults, found = dict(rules.defaults), []
    for name in sorted(named):
        member = members[name]
        if _read_value(body, member) not in (None, defaults.get(name)):
            found.append((name, Span(member.start, member.end)))
    return tuple(found)


def _span(body: bytes, member: Member) -> Span | None:
    # Proved to be a value: none else begins so, and tools are long to copy.
    if body.startswith(b"null", member.start):
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
    if member is not None and body.startswith(b'"', member.start):
        text = body[member.start + 1 : member.end - 1]
        # Proved to be a text in UTF-8: without escapes it says what it is.
        if text.find(b"\\") < 0:
            return text.decode()
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
        # A figure is nothing but digits, or what is decoded of another spelling.
        text = body[members[name].start : members[name].end]
        is_plain = len(text) <= _PLAIN_DIGITS and text.isdigit()
        value = int(text) if is_plain else _read_value(body, members[name])
        if type(value) is int and 0 < value < _PAST_NUMBERS:
            return value
    return None
