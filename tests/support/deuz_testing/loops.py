"""The event loops that tests run on: asyncio's, and for some files uvloop's as well.

Rules:
- The product runs on uvloop; how a connection ends looks different on each. A test file
  says `ON_BOTH_LOOPS = True` to run all of its tests twice.
"""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

Factory = Callable[[], asyncio.AbstractEventLoop]


def loop_factories(item: pytest.Item) -> Mapping[str, Factory]:
    """Return the loops of a test, by name."""
    module = item.getparent(pytest.Module)
    is_on_both = getattr(module and module.obj, "ON_BOTH_LOOPS", False)
    plain: dict[str, Factory] = {"asyncio": asyncio.new_event_loop}
    return {**plain, "uvloop": uvloop.new_event_loop} if is_on_both else plain
