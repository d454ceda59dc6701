"""The reusable prefix of a request, in the order in which the provider renders it.

Rules:
- Order: model, parameters, tools, system, history. A change invalidates all behind it.
- Where parameters spoil nothing but the history, they stand behind the system text.
- Histories are packed: eight digest bytes and four token bytes for each element, so
  that thousands of conversations can be remembered.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
import xxhash

from deuz_compiler.pieces import Element
from deuz_compiler.surface import Surface
from deuz_compiler.wires.envelope import Envelope, Facts, Span
from deuz_compiler.wires.rendered import has_marker, rendered_list
from deuz_compiler.wires.scanner import SCANNER
from deuz_compiler.wires.scanning import quick_tokens
from deuz_compiler.wires.turns import DIGEST_BYTES as TURN_DIGEST_BYTES
from deuz_compiler.wires.turns import TOKEN_BYTES, Turns, sum_tokens, unpack_tokens

DIGEST_BYTES = 8
_HEAD = ("model", "params", "tools", "system")
_HEAD_PARAMS_LAST = ("model", "tools", "system", "params")


class Segment(msgspec.Struct, frozen=True, gc=False):
    """One part ahead of the history: rendered digest, tokens and place in the body."""

    digest: bytes
    tokens: int
    start: int
    end: int


class Prefix(msgspec.Struct, frozen=True, gc=False):
    """A request's prefix. `digests` and `tokens` are packed, one entry an element."""

    model: Segment
    params: Segment
    tools: Segment
    system: Segment
    digests: bytes
    tokens: bytes
    history_tokens: int
    is_params_last: bool = False

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the segments ahead of the history, as the cache depends on them."""
        return _HEAD_PARAMS_LAST if self.is_params_last else _HEAD

    @property
    def count(self) -> int:
        """Number of elements of the history."""
        return len(self.digests) // DIGEST_BYTES

    @property
    def elements(self) -> tuple[bytes, ...]:
        """Digest of each element of the history."""
        starts = range(0, len(self.digests), DIGEST_BYTES)
        return tuple([self.digests[start : start + DIGEST_BYTES] for start in starts])

    def head(self, name: str) -> Segment:
        """Return one of the segments ahead of the history."""
        segment: Segment = getattr(self, name)
        return segment

    def is_headed_like(self, other: "Prefix") -> bool:
        """Tell whether all segments ahead of the history are the same."""
        return (
            self.system.digest == other.system.digest
            and self.tools.digest == other.tools.digest
            and self.params.digest == other.params.digest
            and self.model.digest == other.model.digest
        )

    @property
    def head_tokens(self) -> int:
        """Estimated tokens ahead of the history."""
        return self.tools.tokens + self.system.tokens

    def token_counts(self) -> tuple[int, ...]:
        """Estimated tokens of each element of the history."""
        return unpack_tokens(self.tokens)

    def tokens_from(self, index: int) -> int:
        """Estimated tokens of the history's elements from `index` on."""
        return sum_tokens(self.tokens[index * TOKEN_BYTES :])

    def tokens_between(self, start: int, end: int) -> int:
        """Estimated tokens of the history's elements from `start` up to `end`."""
        if end <= start:
            return 0
        return sum_tokens(self.tokens[start * TOKEN_BYTES : end * TOKEN_BYTES])

    @property
    def total_tokens(self) -> int:
        """Estimated tokens of the whole request."""
        return self.tools.tokens + self.system.tokens + self.history_tokens


class Difference(msgspec.Struct, frozen=True, gc=False):
    """Where two prefixes first differ. `index` counts history elements."""

    segment: str
    index: int


class Shared(msgspec.Struct, frozen=True, gc=False):
    """What a request has in common with an earlier one, whose prefix is known.

    The first `turns` turns and the first `offset` bytes of both bodies are the same;
    `lead` counts the earlier one's leading system turns, `facts` are its own.
    """

    prefix: Prefix
    turns: int
    offset: int
    lead: int
    facts: Facts | None = None


def plain_prefix(envelope: Envelope, shared: Shared | None = None) -> Prefix:
    """Return the prefix of a request as the client sent it.

    Leading system turns are the segment `system`, not part of the packed history. What
    is shared with an earlier request is taken over, not counted again.
    """
    lead, count, history_tokens = envelope.lead, 0, 0
    digests = tokens = b""
    head = None
    if shared is not None and shared.turns > lead:
        old, count = shared.prefix, shared.turns - lead
        digests, tokens, history_tokens = old.digests, old.tokens, old.history_tokens
        # Nothing is behind it in a conversation that merely goes on.
        if len(digests) > count * DIGEST_BYTES:
            history_tokens -= sum_tokens(tokens[count * TOKEN_BYTES :])
            digests = digests[: count * DIGEST_BYTES]
            tokens = tokens[: count * TOKEN_BYTES]
        # What tells the head may have been taken over as a whole.
        facts, is_led_alike = envelope.facts, lead == shared.lead
        if facts is not None and facts is shared.facts and is_led_alike:
            head = old.model, old.params, old.tools, old.system
    turns, first = envelope.turns, lead + count
    new = turns.tokens[first * TOKEN_BYTES :]
    model, params, tools, system = head or _head(envelope, shared)
    return Prefix(
        model,
        params,
        tools,
        system,
        digests + _halved(turns.digests[first * TURN_DIGEST_BYTES :]),
        tokens + new,
        history_tokens + sum_tokens(new),
        envelope.is_params_last,
    )


Head = tuple[Segment, Segment, Segment, Segment]


# Thousands of conversations of one program have the very same.
@lru_cache(maxsize=1_024)
def _one(model: Segment, params: Segment, tools: Segment, system: Segment) -> Head:
    """Return these, the same values for all who begin alike."""
    return model, params, tools, system


def _head(envelope: Envelope, shared: Shared | None) -> Head:
    return _one(
        Segment(_digest(envelope.model.encode()), 0, 0, 0),
        _params(envelope) if envelope.params else _NO_PARAMS,
        _known_tools(envelope, shared) or _tools(envelope.body, envelope.tools),
        _known_system(envelope, shared) or _system(envelope),
    )


def _halved(digests: bytes) -> bytes:
    """Return the first half of each of these 16-byte digests, one behind the other."""
    if SCANNER is not None:
        return SCANNER.halved(digests)
    return memoryview(digests).cast("Q")[::2].tobytes()


def tokens_with(prefix: Prefix, envelope: Envelope, surface: Surface) -> int:
    """Return the tokens of the whole prefix with the surface; `prefix` is the plain."""
    turns = added = 0
    for piece in surface.all_pieces:
        if isinstance(piece, Element):
            added += piece.tokens
        else:
            turns += piece.end - piece.start
    if turns == len(envelope.turns.kinds):
        # No turn was replaced.
        return prefix.total_tokens + added
    return with_surface(prefix, envelope, surface).total_tokens


def with_surface(prefix: Prefix, envelope: Envelope, surface: Surface) -> Prefix:
    """Return the prefix of what the surface shows; `prefix` is the plain one."""
    lead = envelope.lead
    digests: list[bytes] = []
    tokens: list[bytes] = []
    for piece in surface.all_pieces:
        if isinstance(piece, Element):
            digests.append(piece.digest[:DIGEST_BYTES])
            tokens.append(piece.tokens.to_bytes(TOKEN_BYTES, "little"))
            continue
        start, end = max(0, piece.start - lead), max(0, piece.end - lead)
        digests.append(prefix.digests[start * DIGEST_BYTES : end * DIGEST_BYTES])
        tokens.append(prefix.tokens[start * TOKEN_BYTES : end * TOKEN_BYTES])
    return _with_history(prefix, digests, tokens)


def without(prefix: Prefix, places: bytes) -> Prefix:
    """Return the prefix without the elements at these places of its history.

    They are in their order, packed, 4 bytes each.
    """
    digests: list[bytes] = []
    tokens: list[bytes] = []
    first = 0
    for place in (*unpack_tokens(places), prefix.count):
        digests.append(prefix.digests[first * DIGEST_BYTES : place * DIGEST_BYTES])
        tokens.append(prefix.tokens[first * TOKEN_BYTES : place * TOKEN_BYTES])
        first = place + 1
    return _with_history(prefix, digests, tokens)


def _with_history(
    prefix: Prefix, digests: Sequence[bytes], tokens: Sequence[bytes]
) -> Prefix:
    told = b"".join(tokens)
    return msgspec.structs.replace(
        prefix,
        digests=b"".join(digests),
        tokens=told,
        history_tokens=sum_tokens(told),
    )


def _params(envelope: Envelope) -> Segment:
    body, text = envelope.body, b""
    for name, span in envelope.params:
        text += name.encode() + body[span.start : span.end]
    first = envelope.params[0][1]
    return Segment(_digest(text), 0, first.start, first.end)


def _known_tools(envelope: Envelope, shared: Shared | None) -> Segment | None:
    if shared is None or envelope.tools is None:
        return None
    return _same(shared.prefix.tools, envelope.tools, shared)


def _known_system(envelope: Envelope, shared: Shared | None) -> Segment | None:
    if shared is None or envelope.lead != shared.lead or shared.lead > shared.turns:
        return None
    span = envelope.system
    if span is None and envelope.lead:
        span = _lead_span(envelope.turns, envelope.lead)
    return None if span is None else _same(shared.prefix.system, span, shared)


def _lead_span(turns: Turns, lead: int) -> Span:
    start, end = turns.place(0)
    return Span(start, end if lead == 1 else turns.place(lead - 1)[1])


def _same(known: Segment, span: Span, shared: Shared) -> Segment | None:
    """Return the earlier segment if it is made of the very bytes that stand here."""
    is_same = (known.start, known.end) == (span.start, span.end)
    return known if is_same and span.end <= shared.offset else None


def first_difference(old: Prefix, new: Prefix) -> Difference | None:
    """Return where `new` stops continuing `old`; None if `old` is its prefix.

    A history that merely ends earlier differs at its end.
    """
    if not new.is_headed_like(old):
        order = new.order
        changed = [n for n in order if new.head(n).digest != old.head(n).digest]
        return Difference(changed[0], 0)
    if new.digests.startswith(old.digests):
        return None
    return Difference("turn", common_elements(old, new))


def common_elements(old: Prefix, new: Prefix) -> int:
    """Return how many elements both histories share from the start."""
    return common_bytes(old.digests, new.digests) // DIGEST_BYTES


def common_bytes(old: bytes, new: bytes) -> int:
    """Return the length of the common start, by halving: compares run at C speed."""
    if new.startswith(old):
        return len(old)
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _tools(body: bytes, span: Span | None) -> Segment:
    if span is None:
        return _NOTHING
    start, end = span.start, span.end
    # Not looked into without need, nor copied: a tool is never a lone text.
    if has_marker(body, start, end):
        return _segment(rendered_list(body[start:end]), span)
    return _segment(memoryview(body)[start:end], span)


def _segment(rendered: bytes | memoryview, span: Span) -> Segment:
    start, end = span.start, span.end
    return Segment(_digest(rendered), quick_tokens(end - start), start, end)


def _system(envelope: Envelope) -> Segment:
    """Return the system segment: a member of its own, leading system turns, or both.

    Its place is the member's, if there is one.
    """
    span, own = envelope.system, _NOTHING
    if span is not None:
        own = _segment(rendered_list(envelope.body[span.start : span.end]), span)
    if not envelope.lead:
        return own
    lead, turns = envelope.lead, envelope.turns
    digest = _digest(own.digest + turns.digests[: lead * TURN_DIGEST_BYTES])
    tokens = own.tokens + sum_tokens(turns.tokens[: lead * TOKEN_BYTES])
    place = span or _lead_span(turns, lead)
    return Segment(digest, tokens, place.start, place.end)


def _digest(raw: bytes | memoryview) -> bytes:
    return xxhash.xxh3_64_digest(raw)


_NOTHING = Segment(b"", 0, 0, 0)
_NO_PARAMS = Segment(_digest(b""), 0, 0, 0)
