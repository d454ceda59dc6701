r"""Leave out the middle of a long tool result: its head and its tail stay readable.

Rules:
- Counted are Unicode code points of all text in the result together; pictures and
  other blocks keep their places, blocks that lose all their text vanish.
- Head, marker and tail fit the threshold, so that a second pass changes nothing; a
  setting that breaks this is refused when it is made.
- The marker counts as JSON, with its escapes: what is left is smaller in bytes too.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.errors import MalformedInput, NotLifted
from deuz_compiler.wires.members import array_elements, object_members
from deuz_compiler.wires.parts import UNREADABLE, Place, cut_places

MARKER = "\n\n[middle of this tool result left out by deuz-sidecar]\n\n"
_MARKER_CHARACTERS = len(msgspec.json.encode(MARKER)) - 2
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})


class HeadTail(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """What stays of a result with more than `threshold_characters`.

    Raises:
        MalformedInput: numbers that could not keep the promise to become smaller.
    """

    threshold_characters: int = 8192
    head_characters: int = 4096
    tail_characters: int = 1024

    def __post_init__(self) -> None:
        """Refuse what could not shrink a result, all faults at once."""
        faults = _faults(self)
        if faults:
            raise MalformedInput(faults)


def shorten_content(value: bytes, limits: HeadTail) -> bytes | None:
    """Return a result's content, a JSON string or list, without its middle.

    None if it is within the threshold or of a shape that has no text.
    """
    try:
        texts = _texts(value)
    except (NotLifted, *UNREADABLE):
        return None
    if sum(len(text.words) for text in texts) <= limits.threshold_characters:
        return None
    return _spliced(value, texts, _kept(texts, limits))


class _Text(msgspec.Struct, frozen=True, gc=False):
    """One text of the content; `element` is its block, None for a plain string."""

    start: int
    end: int
    words: str
    element: int | None = None


class _Block(msgspec.Struct):
    type: str = ""
    text: str | None = None


_block = msgspec.json.Decoder(_Block)


def _faults(limits: HeadTail) -> tuple[str, ...]:
    values = [(name, getattr(limits, name)) for name in limits.__struct_fields__]
    wrong = [name for name, value in values if type(value) is not int]
    if wrong:
        return tuple(f"{name}: must be a whole number" for name in wrong)
    faults = [f"{name}: {value} is below 0" for name, value in values if value < 0]
    if limits.threshold_characters == 0:
        faults.append("threshold_characters: 0 is not above 0")
    kept = limits.head_characters + _MARKER_CHARACTERS + limits.tail_characters
    if kept > limits.threshold_characters:
        faults.append(
            f"threshold_characters: {limits.threshold_characters} is less than head,"
            f" marker and tail, {kept}"
        )
    return tuple(faults)


def _texts(value: bytes) -> list[_Text]:
    if value.startswith(b'"'):
        return [_Text(0, len(value), msgspec.json.decode(value, type=str))]
    if not value.startswith(b"["):
        return []
    places = array_elements(value)
    found = (_block_text(value, place, at) for at, place in enumerate(places))
    return [text for text in found if text is not None]


def _block_text(value: bytes, place: Place, at: int) -> _Text | None:
    start, end = place
    try:
        block = _block.decode(value[start:end])
    except UNREADABLE:
        return None
    if block.type not in _TEXT_TYPES or block.text is None:
        return None
    members = object_members(value[start:end], shift=start)
    member = next(m for m in members if m.key == "text")
    return _Text(member.start, member.end, block.text, at)


def _kept(texts: Sequence[_Text], limits: HeadTail) -> list[str]:
    """Return what is left of each text; the marker stands where the gap opens."""
    total = sum(len(text.words) for text in texts)
    gap_start, gap_end = limits.head_characters, total - limits.tail_characters
    kept = []
    position = 0
    marker = MARKER
    for text in texts:
        words = text.words
        stop = max(0, min(len(words), gap_start - position))
        resume = max(stop, min(len(words), gap_end - position))
        if resume > stop:
            words = words[:stop] + marker + words[resume:]
            marker = ""
        kept.append(words)
        position += len(text.words)
    return kept


def _spliced(value: bytes, texts: Sequence[_Text], kept: Sequence[str]) -> bytes:
    changed = [
        pair for pair in zip(texts, kept, strict=True) if pair[0].words != pair[1]
    ]
    edits = [
        (text.start, text.end, msgspec.json.encode(words))
        for text, words in changed
        if words
    ]
    gone = [text.element for text, words in changed if not words]
    if gone:
        places = array_elements(value)
        is_cut = [at in gone for at in range(len(places))]
        cuts = zip(cut_places(places, is_cut), is_cut, strict=True)
        edits += [(*place, b"") for place, cut in cuts if cut]
    return _edited(value, sorted(edits))


def _edited(value: bytes, edits: Sequence[tuple[int, int, bytes]]) -> bytes:
    pieces = []
    position = 0
    for start, end, text in edits:
        pieces += [value[position:start], text]
        position = end
    return b"".join([*pieces, value[position:]])
