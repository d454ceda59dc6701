"""Tests of sockets run on the loops that their file asks for; the page has a tab."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from deuz_proxy.sinks.feed import Feed
from deuz_testing.browser import Tab, open_browser
from deuz_testing.loops import Factory, loop_factories
from deuz_testing.served_page import Served


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Factory]:
    """Return the loops of a test, by name."""
    return loop_factories(item)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served(Feed(generation="g1"))
    await served.start()
    yield served
    await served.stop()


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with open_browser(tmp_path / "profile") as opened:
        await opened.show(width=1280, scheme="light")
        yield opened
