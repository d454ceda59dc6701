"""What the line asks of the world.

Rules:
- A port has one to three methods and speaks in values of `calls` and the compiler.
- Adapters translate foreign exceptions into `errors` where they enter.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from deuz_compiler import Candidate, Operation


class Query(Protocol):
    """What a source is asked: text of the user, a pinned scope and a limit."""

    @property
    def text(self) -> str: ...
    @property
    def scope(self) -> str: ...
    @property
    def limit(self) -> int: ...


class Source(Protocol):
    """Something that offers candidates for context.

    `find` may be slow or fail: the caller sets the deadline and counts the outcome. An
    empty answer is "nothing found", not a failure.
    """

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def is_required(self) -> bool: ...

    async def find(self, query: Query) -> Sequence[Candidate]: ...
    async def close(self) -> None: ...


class Ledger(Protocol):
    """Where surface operations live, by the lineage of their position.

    `read` answers one tuple for each key, empty where nothing is stored, in one round
    trip. `commit` replaces what a key holds.

    Raises:
        StoreFailed: the store did not answer.
    """

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]: ...
    async def commit(
        self, operations: Mapping[bytes, tuple[Operation, ...]]
    ) -> None: ...
    async def close(self) -> None: ...


class Reply(Protocol):
    """An upstream's answer whose head has arrived; chunks come as they arrive."""

    @property
    def status(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]: ...
    def chunks(self) -> AsyncIterator[bytes]: ...
    async def close(self) -> None: ...
