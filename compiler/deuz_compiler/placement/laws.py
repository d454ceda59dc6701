"""Where added text may go, and how it is written there.

Rules:
- Only behind a turn with fresh user text or media; never on a tool continuation, never
  behind a trailing assistant turn (a prefill), never between calls and their results.
- Two forms, fixed for a conversation: `turn` is a user message of its own, `part` is a
  further text part (or spliced text) at the end of that user turn.
- Clients write the same turn now as a list of one text and later as a string. Both give
  the same prompt: on one wire a string is made a list around its own bytes, on others
  the lone text is spliced like a string.
- Working memory ends a request behind its last turn, tool results included, unless the
  model would lose more by it than it gains.
- No cache marker is ever written. Assistant turns are never touched.
"""

from collections.abc import Sequence

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Edit, Envelope
from deuz_compiler.wires.members import array_elements, object_members
from deuz_compiler.wires.rendered import lone_text
from deuz_compiler.wires.table import WIRES
from deuz_compiler.wires.turns import Turn
from deuz_compiler.wires.writing import Writing, framed

TURN = "turn"
PART = "part"
_BINDING = (b'"server_tool_use"', b'"thoughtSignature"', b'"thought_signature"')
_STRING, _LIST, _OBJECT = b'"', b"[", b"{"


def place_for_context(envelope: Envelope) -> int | None:
    """Return the turn behind which new context may stand, or None.

    Only the newest turn is asked: retrieval answers a question just put. System turns
    behind it do not count, they may follow any user turn.
    """
    lead, peeks, kinds = envelope.lead, envelope.turns.peeks, envelope.turns.kinds
    last = len(kinds) - 1
    while last >= lead and peeks[kinds[last]].role == "system":
        last -= 1
    if last < lead or not peeks[kinds[last]].is_fresh:
        return None
    return None if _waits_for_results(envelope, last) else last


def place_for_tail(envelope: Envelope, form: str) -> int | None:
    """Return the turn behind which working memory may end the request, or None.

    Behind tool results too, where a text of the user's changes nothing but the text:
    with thinking on, some models drop their thoughts for it, and the cache with them;
    behind a server's unanswered call nothing but results is taken; behind a signed
    call (Gemini) a text of the user's begins a new turn; and a server whose turns must
    alternate has no room beside a tool's.
    """
    last = len(envelope.turns) - 1
    while last >= envelope.lead and envelope.turns[last].role == "system":
        last -= 1
    if last < envelope.lead or envelope.turns[last].role == "assistant":
        return None
    if envelope.turns[last].is_fresh:
        return None if _waits_for_results(envelope, last) else last
    is_alone = form == PART and envelope.turns[last].role == "tool"
    is_bound = _is_thinking(envelope) or _answers_bound_call(envelope, last)
    return None if is_alone or is_bound else last


def _is_thinking(envelope: Envelope) -> bool:
    spans = [span for name, span in envelope.params if name == "thinking"]
    return any(b"disabled" not in envelope.body[s.start : s.end] for s in spans)


def _answers_bound_call(envelope: Envelope, index: int) -> bool:
    """Tell whether the turn answers a signed call, or one of a server's own tool."""
    turn = envelope.turns[max(0, index - 1)]
    raw = envelope.body[turn.start : turn.end]
    return any(word in raw for word in _BINDING)


def _waits_for_results(envelope: Envelope, index: int) -> bool:
    """Tell whether calls were made that nothing has answered before the turn."""
    peek = envelope.turns.peek
    for at in range(index - 1, -1, -1):
        turn = peek(at)
        if turn.opens_calls or turn.role not in ("user", "system"):
            return turn.opens_calls
    return False


def append_edits(
    envelope: Envelope,
    index: int,
    *,
    parts: Sequence[bytes] = (),
    turns: Sequence[bytes] = (),
) -> tuple[Edit, ...]:
    """Return the insertions that put the escaped texts behind the turn, in their order.

    Raises:
        NotLifted: there are parts, and the turn's content is neither text nor a list.
    """
    writing = WIRES[envelope.wire].writing
    beside = b"".join([b"," + framed(writing.turn, text) for text in turns])
    turn = envelope.turns[index]
    if writing.stays_text:
        return (_insert(turn.end - 1, _spliced([*parts, *turns])),)
    if envelope.body.startswith(_STRING, turn.start):
        return _listed(turn, writing, parts, beside)
    joined = _join_edits(envelope, turn, writing, parts) if parts else ()
    if not turns:
        return joined
    if turn.start == envelope.history.start:
        # A lone turn without a list around it.
        return (_insert(turn.start, b"["), *joined, _insert(turn.end, beside + b"]"))
    return (*joined, _insert(turn.end, beside))


def fold_edits(
    envelope: Envelope, first: int, last: int, *, texts: Sequence[bytes], form: str
) -> tuple[Edit, ...]:
    """Return the edits that put a summary, the last text, for the turns in the run.

    In the form `part` the run disappears and the summary joins the user turn before it,
    behind the blocks of that turn, which are the texts before it.
    """
    turns = envelope.turns
    start, end = turns[first].start, turns[last].end
    if not joins_turn(envelope, first, form=form):
        writing = WIRES[envelope.wire].writing
        return (Edit(start, end, framed(writing.turn, texts[-1])),)
    *before, last_part = append_edits(envelope, first - 1, parts=texts)
    # One edit from the splice to the end of the run: what lies between is kept.
    kept = envelope.body[last_part.end : turns[first - 1].end]
    return (*before, Edit(last_part.start, end, last_part.text + kept))


def joins_turn(envelope: Envelope, first: int, *, form: str) -> bool:
    """Tell whether a summary for the turns from `first` on joins the turn before."""
    return form == PART and first > 0 and envelope.turns[first - 1].role == "user"


def _listed(
    turn: Turn, writing: Writing, parts: Sequence[bytes], beside: bytes
) -> tuple[Edit, ...]:
    """Make a history that is one string a list with this string as its first turn."""
    opener, closer = writing.turn
    end_of_part = writing.part[1]
    more = b"".join([b"," + framed(writing.part, text) for text in parts])
    closing = end_of_part + more + closer.removeprefix(end_of_part) + beside + b"]"
    return _insert(turn.start, b"[" + opener), _insert(turn.end, closing)


def _join_edits(
    envelope: Envelope, turn: Turn, writing: Writing, texts: Sequence[bytes]
) -> tuple[Edit, ...]:
    """Return the insertions that put the texts into the turn, at its end."""
    raw = envelope.body[turn.start : turn.end]
    content = next((m for m in object_members(raw) if m.key == writing.content), None)
    opener = raw[content.start : content.start + 1] if content else b""
    if content is None or opener not in (_STRING, _LIST, _OBJECT):
        raise NotLifted("unknown_shape")
    start, end = turn.start + content.start, turn.start + content.end
    if not (writing.wraps_strings or opener == _OBJECT):
        at = end if opener == _STRING else _end_of_lone_text(envelope.body, start, end)
        if at is not None:
            return (_insert(at - 1, _spliced(texts)),)
    parts = b",".join([framed(writing.part, text) for text in texts])
    if opener == _LIST:
        is_empty = not envelope.body[start + 1 : end - 1].strip()
        return (_insert(end - 1, parts if is_empty else b"," + parts),)
    if opener == _OBJECT:
        return (_insert(start, b"["), _insert(end, b",%b]" % parts))
    opening = _insert(start, b"[" + writing.part[0])
    return (opening, _insert(end, b"%b,%b]" % (writing.part[1], parts)))


def _end_of_lone_text(body: bytes, start: int, end: int) -> int | None:
    """Return where the text of a list of one text ends: such a list is a string too."""
    places = array_elements(body[start:end], shift=start)
    if len(places) != 1 or body[places[0][0] : places[0][0] + 1] != b"{":
        return None
    block, shift = body[slice(*places[0])], places[0][0]
    ends = {m.key: m.end for m in object_members(block, shift=shift)}
    is_plain = lone_text(block) is not None
    return ends["text"] if is_plain else None


def _spliced(texts: Sequence[bytes]) -> bytes:
    return b"".join([b"\\n\\n" + text for text in texts])


def _insert(at: int, text: bytes) -> Edit:
    return Edit(at, at, text)
