"""A document cut into pieces that can be placed one by one.

Rules:
- A chunk aims at 300 tokens and stays below 400 where its text allows it; a code fence
  is cut only when it alone is far too long.
- A Markdown chunk starts with the headings it stands under, to be understood alone.
- Ids come from headings: an edit leaves the ids of other sections as they are, unless
  it adds a heading that is already there.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

# About 3.6 characters per token of English prose.
TARGET_CHARACTERS = 1_080
MOST_CHARACTERS = 1_440
# A fence is worth keeping whole up to here; then lines are the only place to cut.
MOST_FENCE_CHARACTERS = 4 * MOST_CHARACTERS
# Ids are written into every placed block: they cost tokens too.
_LONGEST_SLUG = 48

_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
# Any indentation: fences stand inside lists as well.
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)$")
# Only with a key on its first line: a rule of dashes at the top is text.
_FRONT_MATTER = re.compile(
    r"\A---[ \t]*\n(?=[\w\"'-]+[ \t]*:).*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_SENTENCE_END = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002\uff01\uff1f])")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document; `id` is unique within it, `title` part of the text."""

    id: str
    text: str
    title: str = ""


@dataclass(slots=True)
class _Section:
    """A heading's path and the lines below it, up to the next heading."""

    path: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)


def chunk_markdown(text: str) -> tuple[Chunk, ...]:
    """Cut Markdown by its headings, and long sections by blank lines."""
    plain = _FRONT_MATTER.sub("", _unix(text), count=1)
    chunks: list[Chunk] = []
    used: dict[str, int] = {}
    for section in _sections(plain.split("\n")):
        body = "\n".join(section.lines).strip("\n")
        if not body.strip():
            continue
        slug = _unique(_slug(section.path), used)
        head = "\n".join(section.path)
        parts = (part for block in _blocks(body) for part in _cut(block))
        for number, piece in enumerate(_pieces(parts), start=1):
            chunk_id = slug if number == 1 else f"{slug}.{number}"
            whole = f"{head}\n\n{piece}" if head else piece
            chunks.append(Chunk(chunk_id, whole, head))
    return tuple(chunks)


def chunk_plain(text: str) -> tuple[Chunk, ...]:
    """Cut text or code by blank lines, before unindented lines where possible.

    Three backticks mean nothing here: in code they are as often in a string.
    """
    blocks = _BLANK_LINES.split(_unix(text).strip("\n"))
    parts = (part for block in blocks for part in _cut_block(block))
    pieces = _pieces(part for part in parts if part.strip())
    return tuple(Chunk(str(number), piece) for number, piece in enumerate(pieces, 1))


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    section = _Section()
    above: list[tuple[int, str]] = []
    fence = ""
    for line in lines:
        fence = _fence_after(fence, line)
        heading = _HEADING.match(line) if "#" in line and not fence else None
        if heading is None:
            section.lines.append(line)
            continue
        yield section
        level = len(heading[1])
        above = [step for step in above if step[0] < level]
        above.append((level, f"{heading[1]} {heading[2] or ''}".rstrip()))
        section = _Section(tuple(text for _, text in above))
    yield section


def _fence_after(fence: str, line: str) -> str:
    """Return the fence that is open after the line, empty for none."""
    # Most lines: told without a regular expression.
    if "```" not in line and "~~~" not in line:
        return fence
    found = _FENCE.match(line)
    if found is None:
        return fence
    mark, rest = found[1], found[2]
    if not fence:
        # An info string after backticks has none of them, or it is inline code.
        return "" if mark[0] == "`" and "`" in rest else mark
    is_closed = mark[0] == fence[0] and len(mark) >= len(fence) and not rest.strip()
    return "" if is_closed else fence


def _slug(path: Sequence[str]) -> str:
    slug = "-".join(re.findall(r"\w+", path[-1].lower())) if path else ""
    if len(slug) > _LONGEST_SLUG:
        # At a word's end, unless a single word is that long.
        head = slug[: _LONGEST_SLUG + 1].rpartition("-")[0]
        slug = head or slug[:_LONGEST_SLUG]
    return slug or "top"


def _unique(slug: str, used: dict[str, int]) -> str:
    used[slug] = used.get(slug, 0) + 1
    return slug if used[slug] == 1 else f"{slug}~{used[slug]}"


def _blocks(text: str) -> Iterator[str]:
    """Return what stands between blank lines; a fence is a block of its own."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, _fence_after(fence, line)
        is_opened, is_closed = fence and not before, before and not fence
        is_gap = not line.strip() and not fence
        if lines and (is_opened or is_gap):
            yield "\n".join(lines)
            lines = []
        if not is_gap:
            lines.append(line)
        if is_closed:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _pieces(parts: Iterable[str]) -> Iterator[str]:
    """Join small parts up to the target."""
    held = ""
    for part in parts:
        joined = f"{held}\n\n{part}" if held else part
        if held and _is_full(held, part, len(joined)):
            yield held
            joined = part
        held = joined
    if held:
        yield held


def _is_full(held: str, part: str, joined_characters: int) -> bool:
    if joined_characters > MOST_CHARACTERS:
        return True
    # A block that starts at the margin starts something new: a function, a paragraph.
    return len(held) >= TARGET_CHARACTERS and not part[:1].isspace()


def _cut(block: str) -> Iterator[str]:
    fence = _FENCE.match(block.split("\n", 1)[0])
    limit = MOST_FENCE_CHARACTERS if fence else MOST_CHARACTERS
    if len(block) <= limit:
        yield block
    elif fence:
        yield from _cut_fence(block.split("\n"), fence[1])
    else:
        yield from _cut_lines(block.split("\n"))


def _cut_block(block: str) -> Iterator[str]:
    # As `_cut_lines` would, line by line.
    if len(block) < MOST_CHARACTERS:
        yield block
    else:
        yield from _cut_lines(block.split("\n"))


def _cut_fence(lines: Sequence[str], mark: str) -> Iterator[str]:
    """Cut a fence into fences: each part must read as code by itself."""
    opener = lines[0]
    inner = lines[1:-1] if lines[-1].strip() == mark else lines[1:]
    for part in _cut_lines(inner):
        yield f"{opener}\n{part}\n{mark}"


def _cut_lines(lines: Sequence[str]) -> Iterator[str]:
    held: list[str] = []
    length = 0
    for line in lines:
        for part in _cut_line(line):
            if held and length + len(part) >= MOST_CHARACTERS:
                yield "\n".join(held)
                held, length = [], 0
            held.append(part)
            length += len(part) + 1
    if held:
        yield "\n".join(held)


def _cut_line(line: str) -> Iterator[str]:
    """Cut a line that is too long: between sentences, at a space, or anywhere."""
    if len(line) <= MOST_CHARACTERS:
        yield line
        return
    for sentence in _SENTENCE_END.split(line):
        rest = sentence
        while len(rest) > MOST_CHARACTERS:
            space = rest.rfind(" ", TARGET_CHARACTERS, MOST_CHARACTERS)
            end = space if space > 0 else MOST_CHARACTERS
            yield rest[:end]
            rest = rest[end:].lstrip(" ")
        if rest:
            yield rest
