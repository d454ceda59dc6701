"""Memory in a real PostgreSQL, which keeps what every memory promises."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest
import pytest_asyncio

from deuz_proxy.errors import StoreFailed, StoreUnusable
from deuz_proxy.memory.records import Draft
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_build import open_memory
from deuz_proxy.stores.memory_postgres import VERSION, PostgresMemory
from deuz_testing.memory_suite import NOW, MemorySuite, found
from deuz_testing.postgres import PASSWORD, running_postgres

pytestmark = [pytest.mark.needs("postgresql"), pytest.mark.e2e]

TABLES = ("schema", "records", "notes", "dropped")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_postgres() as url:
        yield url


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(statement)
    await connection.close()


@pytest_asyncio.fixture
async def url(server: str) -> str:
    named = ", ".join(f"deuz_memory_{table}" for table in TABLES)
    await execute(server, f"DROP TABLE IF EXISTS {named}")
    return server


@pytest_asyncio.fixture
async def memory(url: str) -> AsyncIterator[PostgresMemory]:
    made = await PostgresMemory(url, words_of=words_of).open()
    yield made
    await made.close()


class TestPostgresMemory(MemorySuite):
    """PostgreSQL keeps what every memory promises."""


async def test_what_was_remembered_is_there_for_the_next_process(url: str) -> None:
    first = await open_memory(url, words_of=words_of)
    await first.put("acme", Draft("r", "green"), now=NOW)
    second = await open_memory(url, words_of=words_of)

    assert await found(second, "green") == ["r"]
    await first.close()
    await second.close()


async def test_several_may_make_the_tables_at_once(url: str) -> None:
    made = await asyncio.gather(
        *[PostgresMemory(url, words_of=words_of).open() for _ in range(5)]
    )

    for each in made:
        await each.close()


async def test_newer_tables_are_refused_and_left_alone(
    url: str, memory: PostgresMemory
) -> None:
    await execute(url, f"UPDATE deuz_memory_schema SET version = {VERSION + 1}")

    with pytest.raises(StoreUnusable, match=f"version {VERSION + 1}"):
        await open_memory(url, words_of=words_of)


@pytest.mark.parametrize("part", ["password", "port", "database"])
async def test_what_cannot_be_opened_is_told_without_the_password(
    url: str, part: str
) -> None:
    port = url.rpartition(":")[2].partition("/")[0]
    wrong = {
        "password": url.replace(PASSWORD, "canary-wrong"),
        "port": url.replace(f":{port}/", ":1/"),
        "database": url.replace("/postgres", "/nowhere"),
    }[part]

    with pytest.raises(StoreUnusable) as caught:
        await open_memory(wrong, words_of=words_of)

    assert "canary" not in str(caught.value)


async def test_a_server_that_does_not_take_a_statement_is_a_failure(
    url: str, memory: PostgresMemory
) -> None:
    await execute(url, "DROP TABLE deuz_memory_records")

    with pytest.raises(StoreFailed, match="memory failed at search"):
        await memory.search("acme", "green", limit=5, now=NOW)


async def test_a_closed_store_fails_and_closes_again(url: str) -> None:
    memory = await PostgresMemory(url, words_of=words_of).open()
    await memory.close()
    await memory.close()

    with pytest.raises(StoreFailed):
        await memory.get("acme", "r", now=NOW)
