from pathlib import Path

import pytest

from deuz_proxy.memory.records import Draft
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_build import open_memory
from deuz_testing.memory_suite import NOW, found


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_the_store_of_the_url_is_opened(tmp_path: Path, kind: str) -> None:
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/m.db"

    memory = await open_memory(url, words_of=words_of)

    await memory.put("acme", Draft("r", "green"), now=NOW)
    assert await found(memory, "green") == ["r"]
    assert (tmp_path / "m.db").exists() == (kind == "file")
    await memory.close()
