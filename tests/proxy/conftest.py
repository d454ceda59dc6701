"""Tests of sockets run on the loops that their file asks for."""

from collections.abc import Mapping

import pytest

from deuz_testing.loops import Factory, loop_factories


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Factory]:
    """Return the loops of a test, by name."""
    return loop_factories(item)
