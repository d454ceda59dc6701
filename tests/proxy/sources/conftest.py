from collections.abc import Iterator

import pytest

from deuz_proxy.sources.index import ChunkIndex


@pytest.fixture
def index() -> Iterator[ChunkIndex]:
    made = ChunkIndex(":memory:")
    yield made
    made.close()
