"""What the tests of the page share: a browser's tab, and what it shows."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deuz_proxy.sinks.feed import Feed
from deuz_testing.browser import Tab, open_browser
from deuz_testing.served_page import Served


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
