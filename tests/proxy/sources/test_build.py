from pathlib import Path

import pytest

from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.build import build_sources
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.static import StaticRecords
from deuz_testing.line import make_config

SOURCES = """
context:
  sources:
    - {{id: docs, kind: rag, type: files, path: "{path}", min_score: 0}}
    - {{id: rules, type: static, records: [{{id: a, text: One.}}]}}
"""


async def test_sources_are_built_in_the_order_of_the_config(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Rivers\n\nThey run to the sea.")

    docs, rules = await build_sources(make_config(more=SOURCES.format(path=tmp_path)))

    assert isinstance(docs, FolderFiles)
    assert isinstance(rules, StaticRecords)
    (found,) = await docs.find(Query("rivers", "default", 5))
    assert "sea" in found.text
    await docs.close()


async def test_without_sources_there_are_none() -> None:
    assert await build_sources(make_config()) == ()


async def test_a_folder_that_goes_away_is_answered_for_when_it_is_asked(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    config = make_config(more=SOURCES.format(path=folder))
    folder.rmdir()

    docs, _ = await build_sources(config)

    with pytest.raises(StoreFailed):
        await docs.find(Query("rivers", "default", 5))
    await docs.close()
