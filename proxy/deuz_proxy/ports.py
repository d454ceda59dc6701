"""What the line asks of the world.

Rules:
- A port has one to three methods and speaks in values of `calls` and the compiler.
- Adapters translate foreign exceptions into `errors` where they enter.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deuz_compiler import (
    Baseline,
    Candidate,
    Envelope,
    Estimator,
    Operation,
    Prefix,
    Progress,
    Reading,
    Resumed,
    Standing,
    Starts,
)
from deuz_proxy.calls import Body, Call, Headers, Letterhead, Reply, Sighting


@dataclass(frozen=True, slots=True)
class Query:
    """What a source is asked: the user's text, a pinned scope and a limit.

    `envelope` and `history`, its turns' lineage, are for sources that judge by what the
    conversation holds; they leave the process with nobody.
    """

    text: str
    scope: str
    limit: int
    envelope: Envelope | None = field(default=None, repr=False)
    history: tuple[bytes, ...] = field(default=(), repr=False)


class Source(Protocol):
    """Something that offers candidates for context.

    `find` may be slow or fail: the caller sets the deadline and counts the outcome. An
    empty answer is "nothing found", not a failure. One that `gives_mandatory` records
    is asked also when nothing else may enter any more. One that may know at once what
    it finds has a `find_here` as well, which is asked first.
    """

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_required(self) -> bool: ...
    @property
    def gives_mandatory(self) -> bool: ...

    async def find(self, query: Query) -> Sequence[Candidate]: ...
    async def close(self) -> None: ...


FindHere = Callable[[Query], Sequence[Candidate] | None]
"""Tells what `find` would; None where that is to be waited for. Never waits."""


class Archive(Protocol):
    """Who remembers what was said, once a request was accepted. Never waits."""

    def note(self, call: Call) -> None: ...


class Breakers(Protocol):
    """Who keeps count of sources that fail, and lets them rest.

    `note` follows every `admit` that said yes; None: nobody waited for the answer.
    """

    def admit(self, source: str) -> bool: ...
    def note(self, source: str, status: str | None) -> None: ...


class Ledger(Protocol):
    """Where surface operations live, by the lineage of their position.

    `read` answers one tuple for each key, empty where nothing is stored, in one round
    trip. `read_here` answers at once; None where that is to be waited for. `known` is
    what it answered to the first of these keys before: where it holds the same there,
    and nothing at other keys, the answer has its very `held`. `held_here` answers the
    same, to be gone on with: it is no use of it, and not told. `commit` replaces what
    a key holds; but that a turn stays bare is only kept where nothing is, and an equal
    commit changes nothing. `rewrite` changes every entry, which is no use of it, and
    returns how many operations are other ones now.

    Raises:
        StoreFailed: the store did not answer.
    """

    def read_here(
        self, keys: Sequence[bytes], known: Reading | None = None
    ) -> Reading | None: ...
    def held_here(self, keys: Sequence[bytes]) -> Reading | None: ...
    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]: ...
    async def commit(
        self, operations: Mapping[bytes, tuple[Operation, ...]]
    ) -> None: ...
    async def rewrite(
        self, change: Callable[[tuple[Operation, ...]], tuple[Operation, ...]]
    ) -> int: ...
    async def close(self) -> None: ...


class Upstreams(Protocol):
    """Sends a request and returns once the answer's head is there.

    With `upgrade`, the upstream is asked to switch to that protocol. `inform` gets what
    it says before its answer: status, reason and lines. A `letterhead` is handed over
    where the lines are its own.

    Raises:
        UpstreamUnreachable: no connection could be made.
        UpstreamBroken: the connection ended before the head.
    """

    async def send(  # noqa: PLR0913  # A request has that many parts.
        self,
        *,
        method: str,
        base: str,
        path: str,
        headers: Headers,
        body: Body | AsyncIterator[bytes] | None,
        upgrade: bytes | None = None,
        inform: Callable[[int, bytes, Headers], None] | None = None,
        letterhead: Letterhead | None = None,
    ) -> Reply: ...


class Client(Protocol):
    """Where the answer goes. `abort` breaks the connection, so that it shows.

    `start_with` is `start` and the first `write` in one. Both tell whether what is
    written waits for the client to read; `drain` waits with it.
    `switch` says that the protocol is another one from now on, and yields what the
    client sends in it.
    """

    @property
    def has_started(self) -> bool: ...
    def start(self, status: int, reason: str, headers: Headers) -> None: ...
    def start_with(
        self, status: int, reason: str, headers: Headers, first: bytes
    ) -> bool: ...
    async def switch(self, reason: str, headers: Headers) -> AsyncIterator[bytes]: ...
    def write(self, chunk: bytes) -> bool: ...
    async def drain(self) -> None: ...
    def finish(self) -> None: ...
    def abort(self) -> None: ...


class Checkpoints(Protocol):
    """Where bodies of a scope were understood up to."""

    def find(self, starts: Starts) -> Resumed | None: ...
    def keep(
        self,
        starts: Starts,
        progress: Progress,
        standing: Standing | None = None,
        *,
        resumed: Resumed | None = None,
    ) -> None: ...


class Tracker(Protocol):
    """Which conversation a request belongs to, and what the provider saw of it."""

    @property
    def kept_text(self) -> Callable[[bytes], bytes | None]: ...
    def sight(
        self,
        keys: Sequence[bytes],
        current: Prefix,
        *,
        session: bytes | None,
        is_probe: bool,
    ) -> Sighting: ...
    def record(
        self,
        sighting: Sighting,
        keys: Sequence[bytes],
        baseline: Baseline,
        *,
        session: bytes | None,
        texts: Sequence[tuple[bytes, bytes]],
    ) -> None: ...
    def conversation_of(self, keys: Sequence[bytes]) -> str | None: ...
    def note_frontier(self, conversation: str, tokens: int) -> None: ...


class SharedTracker(Protocol):
    """What other replicas, or this one before it started again, saw of a history.

    `load` makes it known to the tracker, in one round trip; it never fails, it counts.
    """

    async def load(self, keys: Sequence[bytes], *, session: bytes | None) -> None: ...


class Estimates(Protocol):
    """Token estimates: of texts, and corrected by what a model's provider reported."""

    def calibrated(self, model: str, tokens: int) -> int: ...
    def learn(self, model: str, *, estimated: int, actual: int) -> None: ...
    def count_text(self, estimator: Estimator, text: str) -> int: ...
    def count_pieces(self, estimator: Estimator, pieces: Sequence[str]) -> int: ...
