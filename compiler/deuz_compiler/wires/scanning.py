"""Find the members of a body and the turns of its history, without reading them.

Rules:
- Every place that is found is proved by the bytes that stand there.
- Behind what is known of an earlier request, only the rest is gone through.
- The compiled scanner does it in one pass, and gives up what is unusual. What it gives
  up is scanned with msgspec, and so is all where it was not built: the result is one.
"""

import codecs
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import starmap
from operator import attrgetter

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Facts, Member
from deuz_compiler.wires.members import (
    BOM,
    array_elements,
    end_of_array,
    object_members,
    step_over,
)
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.turns import (
    DIGEST_BYTES,
    UNREAD,
    Turns,
    pack_places,
    pack_tokens,
    place_in,
)

_LIST, _TEXT = b"[", b'"'
# Bytes of ten tokens, in the scanner too. Measured with o200k over prose, code and JSON
# as written. Other scripts take 0.2 (Cyrillic) to 0.5 (emoji) of a token a byte: near
# enough for a figure that is not to cost more than reading the turn.
_RATE = 37
# A text that is made to be thrown away had better fit into the processor's cache.
_CHECKED_BYTES = 65_536
# Where the scanner begins: at the body's start, behind a history's bracket or a turn.
_WHOLE, _BEHIND_BRACKET, _BEHIND_TURN = 0, 1, 2

Members = tuple[Member, ...]

_read_key = attrgetter("key")


class Elements(msgspec.Struct, frozen=True, gc=False):
    """The turns that were found, in columns as `Turns` has them.

    `kinds` says which of the `signatures` each has; one that is `UNREAD` has none, and
    its digest is still to be made.
    """

    signatures: tuple[int, ...]
    places: bytes
    kinds: bytes
    tokens: bytes
    digests: bytes

    def unread(self) -> Iterator[int]:
        """Return which of them have no signature, by index."""
        at = self.kinds.find(UNREAD)
        while at >= 0:
            yield at
            at = self.kinds.find(UNREAD, at + 1)


def quick_tokens(size_bytes: int) -> int:
    """Return a turn's likely tokens from its length alone, for shares and sums.

    Calibration makes the sums true for each model.
    """
    return size_bytes * 10 // _RATE + 1


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """The part of a body that its next request is likely to repeat byte for byte.

    `digest` is that of the body's start up to `offset`; `turns` end there; `before` are
    the members that stand ahead of the history, which opens at `history_start`. `facts`
    are those of a body that has no members behind it.
    """

    offset: int
    digest: bytes
    history_start: int
    before: tuple[Member, ...]
    turns: Turns
    seed: int
    facts: Facts | None = None


def scan(
    rules: Rules, body: bytes, known: Checkpoint | None = None, *, seed: int = 0
) -> tuple[Members, Elements]:
    """Return the body's members, and the turns behind those that are known.

    Raises:
        NotLifted: not JSON, a key stands twice, or a shape this wire does not have.
    """
    found = _scan_at_once(rules, body, known, seed)
    if found is not None:
        return found
    _refuse_no_text(body, known.offset if known else 0)
    return _scan_rest(rules, body, known) if known else _scan(rules, body)


def _scan_at_once(
    rules: Rules, body: bytes, known: Checkpoint | None, seed: int
) -> tuple[Members, Elements] | None:
    if SCANNER is None:
        return None
    at, origin = 0, _WHOLE
    if known:
        at = known.offset
        origin = _BEHIND_TURN if known.turns.kinds else _BEHIND_BRACKET
    name, spec = rules.history.encode(), rules.glance.spec
    found = SCANNER.scan(body, at, origin, name, *spec, seed)
    if found is None:
        return None
    ahead, start, end, behind, signatures, columns = found
    elements = Elements(signatures, *columns)
    if known and not behind:
        # What stands ahead was looked at when it became known.
        history = Member(rules.history, known.history_start, end)
        return (*known.before, history), _refuse_texts(rules, body, elements)
    before = tuple(starmap(Member, ahead))
    if known:
        before, start = known.before, known.history_start
    history = Member(rules.history, start, end)
    members = (*before, history, *starmap(Member, behind))
    if _is_doubled(members):
        return None
    _refuse_held(rules, body, members)
    return members, _refuse_texts(rules, body, elements)


def _scan(rules: Rules, body: bytes) -> tuple[Members, Elements]:
    lead = len(BOM) if body.startswith(BOM) else 0
    members = object_members(body[lead:] if lead else body, shift=lead)
    _refuse_held(rules, body, members)
    history = next((m for m in members if m.key == rules.history), None)
    opener = body[history.start : history.start + 1] if history else b""
    if history and opener == rules.lone:
        return members, _elements([(history.start, history.end)])
    if history is None or opener != _LIST:
        raise NotLifted("unknown_shape")
    places = array_elements(body[history.start : history.end], shift=history.start)
    return members, _refuse_texts(rules, body, _elements(places))


def _elements(places: Sequence[tuple[int, int]]) -> Elements:
    """Return turns of which nothing is known but where they stand."""
    count = len(places)
    return Elements(
        (),
        pack_places(places),
        bytes([UNREAD]) * count,
        pack_tokens([quick_tokens(end - start) for start, end in places]),
        bytes(DIGEST_BYTES * count),
    )


@lru_cache(maxsize=32)
def _history_decoder(name: str) -> msgspec.json.Decoder[msgspec.Struct]:
    fields = [("turns", list[msgspec.Raw], msgspec.field(name=name))]
    return msgspec.json.Decoder(msgspec.defstruct("History", fields))


def _scan_rest(
    rules: Rules, body: bytes, known: Checkpoint
) -> tuple[Members, Elements]:
    """Scan behind the checkpoint: a stub stands for the turns that are known.

    It has the history's own name and ends like a turn, so that what may stand behind it
    is what may stand behind them. The text is gone through once: what stands behind the
    history is little.
    """
    name = rules.history.encode()
    stub = b'{"%b":[%b' % (name, b"{}" if known.turns else b"")
    rest, shift = stub + body[known.offset :], known.offset - len(stub)
    try:
        values = _history_decoder(rules.history).decode(rest).turns  # type: ignore[attr-defined]  # Made above.
    except msgspec.ValidationError as fault:
        # A list stands here; the last one of that name is something else.
        raise NotLifted("duplicate_key") from fault
    except (msgspec.DecodeError, RecursionError) as fault:
        raise NotLifted("not_json") from fault
    if known.turns:
        values = values[1:]
    stepped, at = step_over(rest, known.offset - shift, values, shift=shift)
    end = end_of_array(rest, at)
    history = Member(rules.history, known.history_start, end + shift)
    members = (*known.before, history, *_behind(name, rest, end, shift))
    if _is_doubled(members):
        raise NotLifted("duplicate_key")
    _refuse_held(rules, body, members)
    places = [(start, start + len(raw)) for start, raw in stepped]
    return members, _refuse_texts(rules, body, _elements(places))


def _behind(name: bytes, rest: bytes, end: int, shift: int) -> Members:
    """Return the members behind a history that ends there."""
    if rest.startswith(b"}", end):
        return ()
    stub = b'{"%b":[]' % name
    return object_members(stub + rest[end:], shift=end + shift - len(stub))[1:]


def _is_doubled(members: Members) -> bool:
    return len(set(map(_read_key, members))) != len(members)


def _refuse_no_text(body: bytes, start: int) -> None:
    """Refuse what is no UTF-8: values that are found, not read, would hide it."""
    if body.isascii():
        return
    view, at = memoryview(body), start
    try:
        while at < len(body):
            end = at + _CHECKED_BYTES
            at += codecs.utf_8_decode(view[at:end], "strict", end >= len(body))[1]
    except UnicodeDecodeError as fault:
        raise NotLifted("not_json") from fault


def _refuse_held(rules: Rules, body: bytes, members: tuple[Member, ...]) -> None:
    """Refuse a history that the provider holds: the body has only its end."""
    if not rules.server_state:
        return
    held = [member for member in members if member.key in rules.server_state]
    if any(rules.is_continued(body[m.start : m.end]) for m in held):
        raise NotLifted("server_state")


def _refuse_texts(rules: Rules, body: bytes, elements: Elements) -> Elements:
    """Refuse a list of texts: only a history as a whole may be one, as its one turn."""
    if rules.lone == _TEXT:
        for index in elements.unread():
            if body.startswith(_TEXT, place_in(elements.places, index)[0]):
                raise NotLifted("unknown_shape")
    return elements
