"""The memory store that a config names; the list of kinds is written out here."""

from typing import TYPE_CHECKING, TypeAlias

from deuz_proxy.config.memory import IN_PROCESS, SQLITE
from deuz_proxy.errors import StoreUnusable
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_proxy.stores.memory_terms import Words

if TYPE_CHECKING:
    from deuz_proxy.stores.memory_postgres import PostgresMemory

MemoryStore: TypeAlias = "SqliteMemory | PostgresMemory"


async def open_memory(url: str, *, words_of: Words) -> MemoryStore:
    """Open the store at a URL that the config checked.

    Raises:
        StoreUnusable: it cannot be opened, or is no memory of this version.
    """
    if url == IN_PROCESS:
        return await SqliteMemory(":memory:", words_of=words_of).open()
    if url.startswith(SQLITE):
        location = url.removeprefix(SQLITE)
        return await SqliteMemory(location, words_of=words_of).open()
    return await _open_postgres(url, words_of)


async def _open_postgres(url: str, words_of: Words) -> "PostgresMemory":
    try:
        # An extra: who keeps memory elsewhere need not have it.
        from deuz_proxy.stores.memory_postgres import PostgresMemory  # noqa: PLC0415
    except ModuleNotFoundError as fault:
        reason = "asyncpg is not installed: pip install 'deuz-sidecar[postgres]'"
        raise StoreUnusable(store="postgres", reason=reason) from fault
    return await PostgresMemory(url, words_of=words_of).open()
