"""Where added text may go, and how it is written there.

Rules:
- Only behind a turn with fresh user text or media; never on a tool continuation, never
  behind a trailing assistant turn (a prefill), never between calls and their results.
- Two forms, fixed for a conversation: `turn` is a user message of its own, `part` is a
  further text part (or spliced text) at the end of that user turn.
- No cache marker is ever written. Assistant turns are never touched.
"""

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import Edit, Envelope
from deuz_compiler.wires.members import object_members

TURN = "turn"
PART = "part"
_STRING, _LIST = b'"', b"["


def place_for_context(envelope: Envelope) -> int | None:
    """Return the turn behind which new context may stand, or None.

    Only the newest turn is asked: retrieval answers a question just put. System turns
    behind it do not count, they may follow any user turn.
    """
    last = len(envelope.turns) - 1
    while last >= envelope.lead and envelope.turns[last].role == "system":
        last -= 1
    is_fresh = last >= envelope.lead and envelope.turns[last].is_fresh
    return last if is_fresh else None


def append_edit(envelope: Envelope, index: int, *, text: bytes, form: str) -> Edit:
    """Return the edit that puts the escaped text behind the turn.

    Raises:
        NotLifted: the form is `part` and the turn's content is neither text nor a list.
    """
    turn = envelope.turns[index]
    if form == TURN:
        return Edit(turn.end, turn.end, b',{"role":"user","content":"%b"}' % text)
    raw = envelope.body[turn.start : turn.end]
    content = next((m for m in object_members(raw) if m.key == "content"), None)
    if content is None:
        raise NotLifted("unknown_shape")
    at = turn.start + content.end - 1
    opener = raw[content.start : content.start + 1]
    if opener == _STRING:
        return Edit(at, at, b"\\n\\n" + text)
    if opener != _LIST:
        raise NotLifted("unknown_shape")
    is_empty = not raw[content.start + 1 : content.end - 1].strip()
    comma = b"" if is_empty else b","
    return Edit(at, at, comma + b'{"type":"text","text":"%b"}' % text)


def fold_edit(
    envelope: Envelope, first: int, last: int, *, text: bytes, form: str
) -> Edit:
    """Return the edit that puts a summary in place of the turns `first` to `last`.

    In the form `part` the run disappears and the summary joins the user turn before it.
    """
    turns = envelope.turns
    start, end = turns[first].start, turns[last].end
    is_joined = form == PART and first > 0 and turns[first - 1].role == "user"
    if not is_joined:
        return Edit(start, end, b'{"role":"user","content":"%b"}' % text)
    joined = append_edit(envelope, first - 1, text=text, form=PART)
    # One edit from the splice to the end of the run: what lies between is kept.
    kept = envelope.body[joined.start : turns[first - 1].end]
    return Edit(joined.start, end, joined.text + kept)
