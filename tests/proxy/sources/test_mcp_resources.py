import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.config.outside import McpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.mcp_resources import McpResources
from deuz_testing.mcp_servers import STDIO, running_http
from deuz_testing.ports import free_port

pytestmark = pytest.mark.e2e


def config(**fields: Any) -> McpSource:
    wire = {} if "url" in fields else {"command": STDIO}
    return McpSource.model_validate(
        {"type": "mcp", "id": "notes", "resources": True, **wire, **fields}
    )


@pytest_asyncio.fixture
async def source() -> AsyncIterator[McpResources]:
    made = McpResources(config())
    await made.open()
    yield made
    await made.close()


async def found(source: McpResources, text: str) -> list[str]:
    records = await source.find(Query(text, "default", 5))
    return [record.record_id for record in records]


async def test_resources_are_cut_and_searched(source: McpResources) -> None:
    assert await found(source, "run to the sea") == ["notes://rivers#rivers"]
    assert await found(source, "all about hats") == ["notes://hats#1"]
    assert await found(source, "helicopter") == []
    (record,) = await source.find(Query("sea", "default", 5))
    assert (record.origin, record.kind) == ("notes://rivers", "rag")
    assert record.text == "# Rivers\n\nThey run to the sea."


async def test_resources_over_http_are_the_same() -> None:
    async with running_http(free_port()) as url:
        source = McpResources(config(url=url))
        await source.open()
        try:
            assert await found(source, "sea") == ["notes://rivers#rivers"]
        finally:
            await source.close()


async def test_who_gives_up_waiting_does_not_stop_the_first_reading(
    source: McpResources,
) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await found(source, "sea")

    assert await found(source, "sea") == ["notes://rivers#rivers"]


async def test_a_server_that_is_none_is_a_failure_at_every_question() -> None:
    source = McpResources(config(command=["/bin/true"]))
    await source.open()

    for _ in range(2):
        with pytest.raises(SourceFailed):
            await found(source, "sea")
    await source.close()


async def test_closing_ends_tasks_and_thread(source: McpResources) -> None:
    before = {task for task in asyncio.all_tasks() if "McpResources" not in repr(task)}
    await found(source, "sea")

    await source.close()
    await source.close()

    assert asyncio.all_tasks() <= before
    assert not [t for t in threading.enumerate() if t.name.startswith("mcp-notes")]
    with pytest.raises(SourceFailed, match="it is closed"):
        await found(source, "sea")
