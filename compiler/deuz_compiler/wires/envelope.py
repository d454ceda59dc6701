"""What is known of a request body without changing a byte of it.

Rules:
- A position is a byte offset into `Envelope.body`; ends are exclusive.
- Digests are of what the provider renders, not of the bytes: cache markers are left
  out, and a plain string equals a list of one text block.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.wires.turns import Turns

# With ten blocks: a copy takes 3.5 µs for 100 KB and 28 for 1 MB, pieces take 6 to 11.
LONG_BYTES = 2**18
"""From here on it takes longer to copy a body than to send it in pieces."""
_MOST_EDITS = 500  # Systems take 1,024 pieces in one call.


class Span(msgspec.Struct, frozen=True, gc=False):
    """A half-open range of bytes in a body."""

    start: int
    end: int


class Member(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One `"key": value` of an object; `start` and `end` are the value's."""

    key: str
    start: int
    end: int


class Facts(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is read of members beside the history; the fields are the envelope's."""

    model: str
    is_streamed: bool
    max_output_tokens: int | None
    tools: Span | None
    system: Span | None
    params: tuple[tuple[str, Span], ...]
    window_tokens: int | None
    is_partial: bool
    is_cached_to_end: bool


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A body with the places of its parts.

    `system` is the top-level system text, where the wire has one. `lead` counts the
    leading turns of role `system`, where the wire has none. `params` are the other
    top-level members that the provider's cache depends on, by name in their order,
    without those at their default; with `is_params_last` they spoil the history alone.
    `before` are all members that stand ahead of the history. `window_tokens` is the
    window that the request itself asks for. With `is_partial` there is a part of the
    prompt that only the provider has. `is_cached_to_end`: the provider is asked to keep
    the prompt up to its very last byte, and finds it again by nothing shorter. `facts`
    are told by what stands ahead of the history alone; None where more tells them.
    """

    wire: str
    body: bytes
    model: str
    is_streamed: bool
    max_output_tokens: int | None
    tools: Span | None
    system: Span | None
    params: tuple[tuple[str, Span], ...]
    history: Span
    before: tuple[Member, ...]
    turns: Turns
    lead: int
    is_params_last: bool = False
    window_tokens: int | None = None
    is_partial: bool = False
    is_cached_to_end: bool = False
    facts: Facts | None = None


class PathFacts(msgspec.Struct, frozen=True, gc=False):
    """What a request's path tells of it, where a wire says it there."""

    model: str = ""
    is_streamed: bool = False


NO_FACTS = PathFacts()


class Edit(msgspec.Struct, frozen=True, gc=False):
    """Replace `body[start:end]` by `text`; an insertion has `start == end`."""

    start: int
    end: int
    text: bytes


class Spliced(msgspec.Struct, frozen=True, gc=False):
    """A long body to be sent: pieces of the client's, as views, and texts in between.

    What is long is not here twice; `bytes` of it joins them.
    """

    pieces: tuple[bytes | memoryview, ...]
    length_bytes: int

    def __len__(self) -> int:
        """Return how many bytes it is."""
        return self.length_bytes

    def __bytes__(self) -> bytes:
        """Return it in one piece."""
        return b"".join(self.pieces)


def lower(body: bytes, edits: Sequence[Edit]) -> bytes:
    """Return the body with the edits applied; without edits, the very same object.

    Edits must be in order and must not overlap. Every byte outside them is kept.
    """
    return b"".join(_pieces(body, edits)) if edits else body


def splice(body: bytes, edits: Sequence[Edit]) -> bytes | Spliced:
    """Return what `lower` does, of a long body without a copy of it."""
    if not edits or len(body) < LONG_BYTES or len(edits) > _MOST_EDITS:
        return lower(body, edits)
    pieces = _pieces(body, edits)
    return Spliced(tuple(pieces), sum(map(len, pieces)))


def _pieces(body: bytes, edits: Sequence[Edit]) -> list[bytes | memoryview]:
    # Views: a piece is copied once at most, into its place.
    view = memoryview(body)
    pieces: list[bytes | memoryview] = []
    position = 0
    for edit in edits:
        pieces += (view[position : edit.start], edit.text)
        position = edit.end
    pieces.append(view[position:])
    return pieces


def outbound_offset(edits: Sequence[Edit], offset: int) -> int:
    """Return where a place of the client's body stands in the outgoing one.

    Text added exactly at the place stands behind it.
    """
    moved = offset
    for edit in edits:
        if edit.end <= offset and edit.start < offset:
            moved += len(edit.text) - (edit.end - edit.start)
    return moved
