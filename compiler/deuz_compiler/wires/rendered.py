"""The text of a turn as the provider's cache sees it.

Rules:
- Cache markers are not rendered: they are cut out wherever a wire allows them.
- A list of one text block is the same as its plain string.
- Everything else counts byte for byte: key order, escapes, number spelling.
"""

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.members import array_elements, object_members, without_members
from deuz_compiler.wires.scanner import holds

MARKERS = frozenset({"cache_control", "prompt_cache_breakpoint"})
MARKS = b'"cache_control"\0"prompt_cache_breakpoint"\0'
_BLOCKS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = 0x5B  # An opening bracket.


def has_marker(raw: bytes, start: int = 0, end: int | None = None) -> bool:
    """Tell whether the text, or this part of it, may hold a cache marker."""
    end = len(raw) if end is None else end
    # Most turns are prose, without an underscore; `in` makes and drops an error at each
    # question.
    return raw.find(b"_", start, end) >= 0 and holds(raw, start, end, MARKS)


def rendered_turn(raw: bytes, content: bytes, *marks: msgspec.Raw) -> bytes:
    """Return the turn's text without markers, a lone text block as plain string.

    `content` is the turn's content as it stands in `raw`, empty if it has none; `marks`
    are the turn's own markers. A string holds none: it is not searched for them.
    """
    if content[:1] != b"[":
        for mark in marks:
            if len(mark):
                return without_members(raw, MARKERS)
        return raw
    is_marked = has_marker(raw)
    inner = _rendered_content(content, is_marked=is_marked)
    if inner is content:
        return raw
    whole = raw.replace(content, inner, 1)
    return without_members(whole, MARKERS) if is_marked else whole


def rendered_list(text: bytes) -> bytes:
    """Return a list of blocks or tools without markers, a lone text as plain string.

    A plain string is returned as it is, and so is what is nested too deeply to be read.
    """
    if text[:1] != b"[":
        return text
    try:
        return _rendered_content(text, is_marked=has_marker(text))
    except (RecursionError, NotLifted):
        return text


def _rendered_content(text: bytes, *, is_marked: bool) -> bytes:
    blocks = _BLOCKS.decode(text)
    if len(blocks) == 1:
        lone = lone_text(bytes(blocks[0]))
        if lone is not None:
            return lone
    return _unmarked_list(text) if is_marked else text


def _unmarked_list(text: bytes) -> bytes:
    pieces = []
    at = 0
    for start, end in array_elements(text):
        pieces += [text[at:start], _unmarked_block(text[start:end])]
        at = end
    return b"".join([*pieces, text[at:]])


def lone_text(block: bytes) -> bytes | None:
    """Return the text's JSON string if the block is text and nothing more."""
    if block[:1] != b"{":
        return None
    members = _MEMBERS.decode(block)
    for name in MARKERS:
        members.pop(name, None)
    if len(members) != 2 or bytes(members.get("type", b"")) != b'"text"':  # noqa: PLR2004
        return None
    text = members.get("text")
    return None if text is None else bytes(text)


def _unmarked_block(block: bytes) -> bytes:
    if block[:1] != b"{" or not has_marker(block):
        return block
    plain = without_members(block, MARKERS)
    # A tool result's own blocks may be marked too; a tool's input never is.
    for member in object_members(plain):
        if member.key == "content" and plain[member.start] == _LIST:
            inner = _unmarked_list(plain[member.start : member.end])
            return plain[: member.start] + inner + plain[member.end :]
    return plain
