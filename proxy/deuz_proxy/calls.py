"""The values that walk the line, from the socket to the last byte.

Rules:
- Header lines are pairs of bytes in the order received; nothing is folded or decoded.
- A value is made once and never changed; what a stage learns is a new value.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from deuz_compiler import (
    Baseline,
    Candidate,
    Ending,
    Envelope,
    Operation,
    OverflowSignal,
    Prefix,
    Reading,
    ReplyMeter,
    Resumed,
    SegmentShare,
    Shared,
    Snapshot,
    Spliced,
    Standing,
    Starts,
    Surface,
    Verdict,
)
from deuz_proxy.config.model import Config
from deuz_proxy.config.routing import Target
from deuz_proxy.observe.events import Compaction, Compile, Trace, UpstreamCall

Headers = Sequence[tuple[bytes, bytes]]
Lines = Mapping[bytes, bytes]
Body = bytes | Spliced
ByTurn = Mapping[int, tuple[Operation, ...]]


def first_values(headers: Headers) -> Lines:
    """Return the first value of each header, by its lower-case name."""
    return {name.lower(): value for name, value in reversed(headers)}


def header(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header, by its lower-case name, or None."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


class Identity(msgspec.Struct, frozen=True):
    """Who asks, as far as state is concerned: never a credential itself."""

    root: bytes
    seed: int
    scope: str
    is_known: bool
    session: bytes | None = None


class Admission(msgspec.Struct, frozen=True):
    """What a request's head alone decides, under one config.

    `decisive` are the lower-case names of lines it was decided by, `names` of all.
    """

    config: Config
    target: Target
    identity: Identity
    passthrough: str | None
    traceparent: str | None
    codings: tuple[bytes, ...]
    is_signed: bool
    is_apart: bool
    decisive: frozenset[bytes]
    names: frozenset[bytes]


class Outgoing(msgspec.Struct, frozen=True):
    """A head as it goes to one place, but for the length that it states."""

    base: str
    path: str
    before: bytes
    behind: bytes

    def around(self, length: bytes) -> bytes:
        """Return the head with the length in its place."""
        return self.before + length + self.behind


Change = tuple[tuple[bytes, bytes], tuple[bytes, bytes]]  # One line for another.


class Letterhead:
    """What a client writes above request after request: a head but for its length.

    Its requests share it, and what was made of it: by the stage that admits, and by
    the upstream's side. Neither depends on the length, only on there being a body.
    One whose lines differ in some values from the connection's last one, as by a new
    trace id, has those `changes`, and in `earlier` what was made of that one.
    """

    __slots__ = ("admission", "changes", "earlier", "outgoing")

    def __init__(
        self, earlier: "Letterhead | None" = None, changes: Sequence[Change] = ()
    ) -> None:
        self.admission: Admission | None = None
        self.outgoing: Outgoing | None = None
        # What was made of it, not itself: else each would keep all before it.
        made = (earlier.admission, earlier.outgoing) if earlier else (None, None)
        self.earlier = made
        self.changes = changes


class Incoming(Protocol):
    """A request whose head has arrived; its body is read once, or streamed.

    One that is all here is taken with `body_here`, others are waited for.
    `inform` hands the client an interim answer; it never fails and never waits.
    """

    @property
    def method(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def letterhead(self) -> Letterhead: ...
    @property
    def has_body(self) -> bool: ...
    @property
    def upgrade(self) -> bytes | None: ...
    def body_here(self, *, limit_bytes: int) -> bytes | None: ...
    async def read_body(self, *, limit_bytes: int) -> bytes: ...
    def stream_body(self) -> AsyncIterator[bytes]: ...
    def inform(self, status: int, reason: bytes, headers: Headers) -> None: ...


class Reply(Protocol):
    """An upstream's answer whose head has arrived; chunks come as they arrive.

    `kind` is its content type, `codings` are its body's. `body_here` takes all of it,
    if it is here, in place of `chunks`. `offer` has each offered within the call that
    read it; `chunks` yields what was refused, and raises what was raised. `send` is for
    an answer that switched the protocol: bytes go the other way.
    """

    @property
    def status(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def kind(self) -> bytes: ...
    @property
    def codings(self) -> tuple[bytes, ...]: ...
    def body_here(self) -> bytes | None: ...
    def chunks(self) -> AsyncIterator[bytes]: ...
    def offer(self, take: Callable[[bytes], bool]) -> None: ...
    async def send(self, piece: bytes) -> None: ...
    def close(self) -> None: ...


class Call(msgspec.Struct, frozen=True):
    """An admitted request. `body` is None when it is streamed through.

    Without an envelope, `passthrough` says why the body is not touched. `starts` are
    its body's, `resumed` is what an earlier request told of it. A call is apart whose
    client asked for less than its route compiles: it is no measure for others, nor has
    what stands there. `packed` is the body as it came, `body` then a decoded copy.
    `group` is its side of the holdout. A condensing client shortens its own history.
    """

    id: str
    incoming: Incoming
    target: Target
    identity: Identity
    body: bytes | None
    headers: Headers
    at: float
    trace: Trace | None = None
    passthrough: str | None = None
    envelope: Envelope | None = None
    chain: tuple[bytes, ...] = ()
    resumed: Resumed | None = None
    is_probe: bool = False
    is_condensing: bool = False
    is_apart: bool = False
    codings: tuple[bytes, ...] = ()
    packed: bytes | None = None
    group: str | None = None
    is_signed: bool = False
    starts: Starts | None = None

    def as_sent(self, body: Body | None) -> Body | None:
        """Return the bytes to send for this body: if unchanged, those that came."""
        return self.packed if self.packed is not None and body is self.body else body

    @property
    def is_compiled(self) -> bool:
        """Whether the request may get, or has got, something added or tried."""
        is_due = self.target.mode in ("shadow", "compile")
        return is_due and self.envelope is not None and self.identity.is_known

    @property
    def shared(self) -> Shared | None:
        """What this request has in common with an earlier one."""
        return self.resumed.progress.shared if self.resumed else None

    @property
    def ledger_keys(self) -> tuple[bytes, ...]:
        """The ledger's keys, one a turn; what is only tried out is kept apart."""
        if self.target.mode != "shadow":
            return self.chain
        return tuple(b"shadow:" + key for key in self.chain)


class Sighting(msgspec.Struct, frozen=True):
    """What the tracker knows of the request's conversation before it is sent."""

    conversation: str
    baselines: tuple[Baseline, ...] = ()
    is_side_call: bool = False
    is_fork: bool = False


class SourceAnswer(msgspec.Struct, frozen=True):
    """How one source answered within the deadline."""

    source: str
    kind: str
    status: Literal["ok", "empty", "late", "failed", "skipped"]
    duration_seconds: float
    error: str | None = None


class Gathered(msgspec.Struct, frozen=True):
    """Candidates of all sources for one refresh."""

    refresh_reason: str
    candidates: tuple[Candidate, ...]
    answers: tuple[SourceAnswer, ...]
    query_digest: str


class Tail(msgspec.Struct, frozen=True):
    """Working memory at the end of one request; `records` are what of it is shown.

    One that is kept stays where it ended the request, in every later one.
    """

    ending: Ending
    records: tuple[str, ...]
    is_kept: bool = False

    @property
    def tokens(self) -> int:
        """What it costs, estimated."""
        return self.ending.append.tokens


class Known(msgspec.Struct, frozen=True):
    """What the conversation already holds, by turn, and what the sources offered now.

    `place` is the turn behind which what was gathered may stand. `undecided` are other
    turns of the user's that no operation says anything of: they are to stay bare.
    `notes` are the conversation's working memory, `tail` what this request ends with.
    `reading` is what the ledger answered, where nothing is undecided there.
    """

    operations: ByTurn = msgspec.field(default_factory=dict)
    gathered: Gathered | None = None
    place: int | None = None
    undecided: tuple[int, ...] = ()
    is_ledger_lost: bool = False
    notes: Snapshot | None = None
    tail: Tail | None = None
    reading: Reading | None = None


NOTHING_KNOWN = Known()
"""Of a request to which nothing was added before, and nothing will be."""


class Compiled(msgspec.Struct, frozen=True):
    """The request as it will be sent. `pending` is committed once it is accepted.

    `operations` were applied, `shortened` made room ahead of an overflow. `tail_tokens`
    are sent, but no part of the prefix; `tried` would have been, in `compile`. What was
    put back is `standing`, read from `reading`: read before, the surface is blank.
    """

    body: Body | None
    surface: Surface | None = None
    inbound: Prefix | None = None
    outbound: Prefix | None = None
    sighting: Sighting | None = None
    verdict: Verdict | None = None
    shares: tuple[SegmentShare, ...] = ()
    operations: ByTurn = msgspec.field(default_factory=dict)
    pending: ByTurn = msgspec.field(default_factory=dict)
    shortened: ByTurn = msgspec.field(default_factory=dict)
    compile: Compile | None = None
    compactions: tuple[Compaction, ...] = ()
    is_ledger_lost: bool = False
    passthrough: str | None = None
    tail: Tail | None = None
    tail_tokens: int = 0
    tried: Prefix | None = None
    tried_verdict: Verdict | None = None
    standing: Standing | None = None
    reading: Reading | None = None


class Sent(msgspec.Struct, frozen=True):
    """An answer whose head is here and, if it was held, its first chunks too.

    `rest` yields what was not read yet; None: nothing was. `overflow` is known before
    the client has seen a byte. One that `is_whole` is held in one piece.
    """

    reply: Reply
    held: tuple[bytes, ...]
    rest: AsyncIterator[bytes] | None
    meter: ReplyMeter
    decode: Callable[[bytes], bytes]
    is_accepted: bool
    call: UpstreamCall
    overflow: OverflowSignal | None = None
    is_whole: bool = False


class Totals(msgspec.Struct, frozen=True):
    """What was relayed: sizes, times and how it ended."""

    outcome: str
    status: int
    response_bytes: int
    first_byte_seconds: float | None
    error: str | None = None
    error_body: bytes = b""
