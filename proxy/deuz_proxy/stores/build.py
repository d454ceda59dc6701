"""Opens the stores that the config's `ledger.url` names.

Rules:
- What cannot work is refused at the start; what fails later costs context, no request.
"""

import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

import msgspec

from deuz_compiler import Append, Fold, Operation, TailCopy
from deuz_proxy import ports
from deuz_proxy.config.ledger import MEMORY, LedgerConfig, file_of
from deuz_proxy.observe.events import Listener
from deuz_proxy.stores.aside import Aside
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.conversations import Conversations
from deuz_proxy.stores.gate import Gate
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_proxy.stores.ledger_stored import StoredLedger
from deuz_proxy.stores.shelf import Shelf
from deuz_proxy.stores.sqlite_conversations import SqliteConversations
from deuz_proxy.stores.sqlite_file import FAULTS as SQLITE_FAULTS
from deuz_proxy.stores.sqlite_file import connect, open_file
from deuz_proxy.stores.sqlite_shelf import STORE as SQLITE
from deuz_proxy.stores.sqlite_shelf import SqliteShelf
from deuz_proxy.stores.sqlite_thread import SqliteThread
from deuz_proxy.stores.tracker import Tracker
from deuz_proxy.stores.tracker_shared import SharedTracker

_CLOSE_SECONDS = 2.0
# What an operation takes in memory beside its bytes as stored, and each record in it
# (measured as resident memory over 100 000 entries of one to eight records).
_TEXT_BYTES, _RECORD_BYTES = 140, 130
_WITH_TEXT = (Append, Fold, TailCopy)


@dataclass(frozen=True, slots=True)
class Stores:
    """What keeps a conversation's state. What was opened is closed by the stack."""

    ledger: ports.Ledger
    tracker: ports.Tracker
    shared: ports.SharedTracker | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    """A file or a server, and what it raises."""

    store: str
    faults: tuple[type[Exception], ...]
    shelf: Shelf
    conversations: Conversations


async def open_stores(
    config: LedgerConfig,
    stack: AsyncExitStack,
    *,
    new_id: Callable[[], str],
    tell: Listener,
    clock: Callable[[], float] = time.time,
) -> Stores:
    """Open the stores of the config.

    Raises:
        StoreUnusable: the place cannot be used.
    """
    bounds, local = ledger_bounds(config), Tracker(new_id=new_id)
    if config.url == MEMORY:
        ledger = MemoryLedger(bounds, weigh=weigh, clock=clock, tell=tell)
        stack.push_async_callback(ledger.close)
        return Stores(ledger, local)
    place = await _open_place(config, stack)
    gate = partial(
        Gate,
        place.store,
        faults=place.faults,
        deadline_seconds=config.deadline_ms / 1000,
        clock=time.monotonic,
        tell=tell,
    )
    stored = StoredLedger(
        place.shelf,
        bounds,
        reads=gate("read"),
        commits=gate("commit"),
        aside=await _open_aside(stack),
        clock=clock,
    )
    tracker = SharedTracker(
        local,
        place.conversations,
        gates={op: gate(op) for op in ("load", "save")},
        aside=await _open_aside(stack),
        clock=clock,
        ttl_seconds=config.ttl_seconds,
    )
    return Stores(stored, tracker, tracker)


async def _open_aside(stack: AsyncExitStack) -> Aside:
    aside = await Aside().open()
    stack.push_async_callback(aside.close, grace_seconds=_CLOSE_SECONDS)
    return aside


async def _open_place(config: LedgerConfig, stack: AsyncExitStack) -> _Place:
    path = file_of(config.url)
    if path is None:
        return await _open_server(config, stack)
    writer = SqliteThread(open_file(path), "ledger-writer")
    stack.push_async_callback(writer.close, grace_seconds=_CLOSE_SECONDS)
    reader = SqliteThread(connect(path), "ledger-reader")
    stack.push_async_callback(reader.close, grace_seconds=_CLOSE_SECONDS)
    return _Place(
        SQLITE,
        SQLITE_FAULTS,
        SqliteShelf(reader, writer),
        SqliteConversations(reader, writer),
    )


async def _open_server(config: LedgerConfig, stack: AsyncExitStack) -> _Place:
    # Lazily: its library takes 8 MB and a fifth of a second of every start.
    from deuz_proxy.stores import redis_conversations, redis_server, redis_shelf  # noqa: PLC0415

    server = redis_server.RedisServer(
        config.url,
        connect_seconds=config.deadline_ms / 1000,
        ca_file=config.ca_file,
    )
    stack.push_async_callback(server.close)
    await server.open()
    return _Place(
        redis_server.STORE,
        redis_server.FAULTS,
        redis_shelf.RedisShelf(server),
        redis_conversations.RedisConversations(server),
    )


def ledger_bounds(config: LedgerConfig) -> Bounds:
    """Return the ledger's bounds."""
    return Bounds(config.max_entries, config.max_bytes, config.ttl_seconds)


def weigh(operations: tuple[Operation, ...]) -> int:
    """Return how many bytes the operations take in memory."""
    held = [each for each in operations if isinstance(each, _WITH_TEXT)]
    records = sum([len(each.records) for each in held])
    stored_bytes = len(msgspec.msgpack.encode(operations))
    return stored_bytes + len(held) * _TEXT_BYTES + records * _RECORD_BYTES
