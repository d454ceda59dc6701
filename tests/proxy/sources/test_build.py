import threading
from pathlib import Path

import pytest

from deuz_proxy.errors import SourceFailed, StoreFailed, StoreUnusable
from deuz_proxy.ports import Query
from deuz_proxy.sources.build import build_sources, make_breakers, transcripts_of
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.http import HttpService
from deuz_proxy.sources.mcp import McpTool
from deuz_proxy.sources.mcp_resources import McpResources
from deuz_proxy.sources.skills import FolderSkills
from deuz_proxy.sources.static import StaticRecords
from deuz_proxy.sources.store import StoredRecords
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.line import FixedSource, make_config

SOURCES = """
context:
  sources:
    - {{id: docs, kind: rag, type: files, path: "{path}", min_score: 0}}
    - {{id: rules, type: static, records: [{{id: a, text: One.}}]}}
    - {{id: kb, type: http, url: "http://127.0.0.1:1"}}
"""


async def test_sources_are_built_in_the_order_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Rivers\n\nThey run to the sea.")

    docs, rules, kb = await build_sources(
        make_config(more=SOURCES.format(path=tmp_path))
    )

    assert isinstance(docs, FolderFiles)
    assert isinstance(rules, StaticRecords)
    assert isinstance(kb, HttpService)
    (found,) = await docs.find(Query("rivers", "default", 5))
    assert "sea" in found.text
    await docs.close()


async def test_where_one_cannot_be_opened_the_others_are_closed(
    tmp_path: Path,
) -> None:
    text = SOURCES.format(path=tmp_path) + "    - {type: transcript}\n"

    async def open_past(url: str) -> SqliteMemory:
        raise StoreUnusable(store=url, reason="it is no file")

    with pytest.raises(StoreUnusable):
        await build_sources(make_config(more=text), open_past=open_past)

    running = [thread.name for thread in threading.enumerate()]
    assert [name for name in running if name.startswith("files-docs")] == []


async def test_a_large_folder_is_waited_for_no_longer_than_is_said(
    tmp_path: Path,
) -> None:
    text = "\n\n".join([f"Rivers run to the sea, {n} times." for n in range(2_000)])
    for number in range(40):
        (tmp_path / f"{number:02}.txt").write_text(text)
    config = make_config(more=SOURCES.format(path=tmp_path))
    query = Query("rivers", "default", 5)

    docs, *_ = await build_sources(config, folder_seconds=0.0)
    with pytest.raises(SourceFailed) as early:
        await docs.find(query)
    await docs.close()
    docs, *_ = await build_sources(config)

    assert early.value.reason == SourceFailed.NOT_READY
    assert len(await docs.find(query)) == 5
    await docs.close()


async def test_every_source_has_a_breaker_that_is_closed() -> None:
    config = make_config(
        more="context: {refresh: {rest_after: 1, rest_seconds: 5}, sources:"
        " [{id: rules, type: static, records: []}]}"
    )
    now = [100.0]
    breakers = make_breakers(config, clock=lambda: now[0])
    before = breakers.admit("rules")

    breakers.note("rules", "failed")

    after = breakers.admit("rules")
    now[0] += 5
    assert (before, after, breakers.admit("rules")) == (True, False, True)


async def test_what_was_said_needs_a_store_and_is_found_among_the_sources() -> None:
    config = make_config(more="context: {sources: [{type: transcript}]}")

    async def open_past(url: str) -> SqliteMemory:
        assert url == "memory://"
        return await SqliteMemory(":memory:", words_of=words_of).open()

    with pytest.raises(ValueError, match="without a store"):
        await build_sources(config)
    (source,) = await build_sources(config, open_past=open_past)

    assert transcripts_of([source, FixedSource()]) == (source,)
    await source.close()


async def test_skills_and_servers_are_built_by_their_type(tmp_path: Path) -> None:
    more = f"""
context:
  sources:
    - {{type: skills, path: "{tmp_path}"}}
    - {{id: by-tool, type: mcp, command: [/no/such], tool: search}}
    - {{id: read, type: mcp, command: [/no/such], resources: true}}
"""
    skills, by_tool, read = await build_sources(make_config(more=more))

    assert isinstance(skills, FolderSkills)
    assert isinstance(by_tool, McpTool)
    assert isinstance(read, McpResources)
    for source in (skills, by_tool, read):
        await source.close()


async def test_without_sources_there_are_none() -> None:
    assert await build_sources(make_config()) == ()


async def test_a_folder_that_goes_away_is_answered_for_when_it_is_asked(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    config = make_config(more=SOURCES.format(path=folder))
    folder.rmdir()

    docs, *_ = await build_sources(config)

    with pytest.raises(StoreFailed):
        await docs.find(Query("rivers", "default", 5))
    await docs.close()


async def test_the_memory_store_is_a_source_where_there_is_one() -> None:
    config = make_config(more="context: {sources: [{type: store}]}")
    records = await SqliteMemory(":memory:", words_of=words_of).open()

    (source,) = await build_sources(config, records=records)

    assert isinstance(source, StoredRecords)
    assert source.id == "memory"
    with pytest.raises(ValueError, match="without a memory store"):
        await build_sources(config)
    await records.close()
