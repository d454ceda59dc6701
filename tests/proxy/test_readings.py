import time
from typing import Any

import pytest
from msgspec.structs import replace

from deuz_compiler import Append, Bare, Prune
from deuz_proxy.calls import Call, Compiled, Known
from deuz_proxy.placements import tell_placements
from deuz_proxy.readings import with_reading
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.recall import recall_context, recall_here
from deuz_proxy.stages.settle import keep_call
from deuz_proxy.stores.build import ledger_bounds, weigh
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import admitted
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest

# What is shorter is not looked for: it is read anew.
LONG = "word " * 300
TOOLS = [turn for at in "123" for turn in (tool_use(at), tool_result(at, "found"))]


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


@pytest.fixture
def told() -> Told:
    return Told()


def stories(turns: list[Any]) -> list[bytes]:
    """Return bodies of a history that gets its turns two by two."""
    return [anthropic_body(turns[:end]) for end in range(1, len(turns) + 1, 2)]


async def served(runtime: Runtime, body: bytes) -> tuple[Call, Known, Compiled]:
    call = await admitted(runtime, GivenRequest(body))
    known = recall_here(call, runtime) or await recall_context(call, runtime)
    compiled = compile_call(call, known, runtime)
    await keep_call(call, compiled, runtime)
    return call, known, compiled


async def test_what_was_told_of_blocks_is_told_again_behind_the_next_question(
    told: Told, source: FixedSource
) -> None:
    refresh = "context: {refresh: {min_steps: 1}}"
    runtime = make_runtime(make_config(more=refresh), told, sources=[source])
    turns = [user(LONG)]
    for number in range(4):
        turns += [*TOOLS, assistant("Found."), user(f"and {number}?")]
    standings = []
    for body in stories([*turns, *TOOLS]):
        call, known, compiled = await served(runtime, body)
        standing = compiled.standing
        again = tell_placements(call, compiled, is_accepted=True)

        anew = compile_call(replace(call, resumed=None), known, runtime)
        assert again == tell_placements(call, anew, is_accepted=True)
        standings.append(standing is not None and again is standing.told)
    # But for the five questions, each is told as it was before.
    assert standings == [False, True, True, True] * 5


class Forgetful(MemoryLedger):
    """A ledger of which nothing is left once it was written to."""

    async def commit(self, operations: Any) -> None:
        await super().commit(operations)
        await super().commit(dict.fromkeys(operations, ()))


async def test_what_the_ledger_does_not_hold_is_not_gone_on_with(
    told: Told, source: FixedSource
) -> None:
    config = make_config()
    bounds = ledger_bounds(config.ledger)
    ledger = Forgetful(bounds, weigh=weigh, clock=time.time, tell=told)
    runtime = make_runtime(config, told, sources=[source], ledger=ledger)
    first, second = stories([user(LONG), *TOOLS[:2]])
    _, _, compiled = await served(runtime, first)
    assert compiled.body != first

    call, _, compiled = await served(runtime, second)

    assert call.resumed is not None
    assert call.resumed.standing is not None
    assert call.resumed.standing.reading is None
    assert compiled.body == second


@pytest.mark.parametrize(
    "change",
    [
        {"is_condensing": True},
        {0: (Append(b"N", (), 1),)},
        {0: (Prune(((0, b"cut"),)), Bare())},
        {0: ()},
        {2: (Bare(),)},
    ],
)
async def test_what_is_not_what_stands_is_not_added(
    told: Told, source: FixedSource, change: dict[Any, Any]
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    first, second = stories([user(LONG), *TOOLS[:2]])
    call, _, compiled = await served(runtime, first)
    going_on = await admitted(runtime, GivenRequest(second))
    standing = going_on.resumed.standing if going_on.resumed else None
    assert standing is not None
    bare = replace(standing, reading=None, told=())
    assert with_reading(call, compiled, bare, runtime) == standing

    if "is_condensing" in change:
        call = replace(call, **change)
    else:
        keys = going_on.ledger_keys
        await runtime.ledger.commit({keys[at]: held for at, held in change.items()})
        bare = replace(bare, turns=3)
        call = replace(going_on, resumed=None)

    assert with_reading(call, compiled, bare, runtime) is bare
