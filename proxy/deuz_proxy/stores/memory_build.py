"""The memory store that a config names; the list of kinds is written out here."""

from deuz_proxy.config.memory import IN_PROCESS, SQLITE
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_proxy.stores.memory_terms import Words

MemoryStore = SqliteMemory


async def open_memory(url: str, *, words_of: Words) -> MemoryStore:
    """Open the store at a URL that the config checked.

    Raises:
        StoreUnusable: it cannot be opened, or is no memory of this version.
    """
    location = ":memory:" if url == IN_PROCESS else url.removeprefix(SQLITE)
    return await SqliteMemory(location, words_of=words_of).open()
