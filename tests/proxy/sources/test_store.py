import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
import pytest_asyncio

from deuz_proxy.config.memory import StoreSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import MEMORY_SCOPE, Draft
from deuz_proxy.ports import Query
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.memory_suite import HOSTILE, NOW


@pytest_asyncio.fixture
async def records() -> AsyncIterator[SqliteMemory]:
    made = await SqliteMemory(":memory:", words_of=words_of).open()
    yield made
    await made.close()


def source(records: SqliteMemory, min_score: str = "0.2") -> StoredRecords:
    config = StoreSource(type="store", id="m", min_score=Decimal(min_score))
    return StoredRecords(config, records, clock=lambda: NOW)


async def found(
    source: StoredRecords, text: str, limit: int = 5, scope: str = "acme"
) -> list[str]:
    return [c.record_id for c in await source.find(Query(text, scope, limit))]


async def test_mandatory_records_come_first_and_beyond_the_limit(
    records: SqliteMemory,
) -> None:
    await records.put("acme", Draft("z", "Never guess.", mandatory=True), now=NOW)
    await records.put("acme", Draft("a", "The sea is green."), now=NOW)
    await records.put("acme", Draft("b", "The sea is green today."), now=NOW)

    asked = source(records)

    assert await found(asked, "green sea") == ["z", "a", "b"]
    assert await found(asked, "green sea", 2) == ["z", "a"]
    assert await found(asked, "green sea", 0) == ["z"]
    assert await found(asked, "never guess") == ["z"]
    assert await found(asked, "nothing") == ["z"]


async def test_a_candidate_tells_all_that_is_known_of_its_record(
    records: SqliteMemory,
) -> None:
    draft = Draft("r", "The sea is green.", True, NOW + 9, "crm", ("chat",))
    kept = await records.put("acme/u", draft, now=NOW)

    (found,) = await source(records).find(Query("sea", "acme/u", 5))

    assert (found.source, found.kind, found.key) == ("m", "memory", "m/r")
    assert (found.text, found.revision, found.digest) == (draft.text, "1", kept.digest)
    assert (found.requirement, found.score) == ("mandatory", 1.0)
    assert (found.expires_at, found.origin) == (NOW + 9, "crm")
    assert found.source_kinds == ("chat",)
    assert found.provenance == ((MEMORY_SCOPE, "acme/u"),)


async def test_what_hardly_fits_is_not_offered(records: SqliteMemory) -> None:
    await records.put("acme", Draft("a", "How to fold a paper boat"), now=NOW)
    for number in range(9):
        await records.put("acme", Draft(f"x{number}", f"rivers {number}"), now=NOW)
    question = "will a boat leave the harbour tomorrow morning"

    assert await found(source(records), question) == []
    assert await found(source(records, "0"), question) == ["a"]


@pytest.mark.parametrize("other", ["acme", "acme/v", "other"])
async def test_only_the_very_scope_is_asked(records: SqliteMemory, other: str) -> None:
    await records.put("acme/u", Draft("r", "green", mandatory=True), now=NOW)

    assert await found(source(records), "green", scope=other) == []


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_no_question_fails(records: SqliteMemory, text: str) -> None:
    await records.put("acme", Draft("r", "green"), now=NOW)

    assert await found(source(records), text) in ([], ["r"])


async def test_a_store_that_fails_is_told(records: SqliteMemory) -> None:
    asked = source(records)
    await records.close()

    with pytest.raises(StoreFailed):
        await asked.find(Query("green", "acme", 5))
    await asked.close()


async def test_scopes_that_ask_at_once_each_get_their_own(
    records: SqliteMemory,
) -> None:
    scopes = [f"t{number % 4}/u{number}" for number in range(16)]
    for scope in scopes:
        pinned = Draft("rule", f"Rule of {scope}", mandatory=True)
        await records.put(scope, pinned, now=NOW)
        await records.put(scope, Draft("fact", f"green fact of {scope}"), now=NOW)
    asked = source(records)

    async def texts(scope: str) -> list[str]:
        return [c.text for c in await asked.find(Query("green fact", scope, 20))]

    answers = await asyncio.gather(*[texts(scope) for scope in scopes * 5])

    assert answers == [
        [f"Rule of {scope}", f"green fact of {scope}"] for scope in scopes * 5
    ]
