from typing import Any

import pytest
from msgspec.structs import replace

from deuz_proxy.calls import Call, Compiled
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.recall import recall_context
from deuz_proxy.stages.settle import keep_call
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


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


@pytest.fixture
def told() -> Told:
    return Told()


async def call_of(runtime: Runtime, body: bytes) -> Call:
    return await admitted(runtime, GivenRequest(body))


def stories(turns: list[Any]) -> list[bytes]:
    """Return bodies of a history that gets its turns two by two."""
    return [anthropic_body(turns[:end]) for end in range(1, len(turns) + 1, 2)]


@pytest.mark.parametrize("placement", ["turn", "part"])
async def test_what_stands_is_put_back_as_it_would_be_laid_out(
    told: Told, source: FixedSource, placement: str
) -> None:
    config = make_config(placement=placement)
    runtime = make_runtime(config, told, sources=[source])
    turns = [user(LONG), assistant("a"), user("r")]
    for call_id in ("t1", "t2"):
        turns += [tool_use(call_id), tool_result(call_id, "found")]
    put_back = []
    for body in stories(turns):
        call = await call_of(runtime, body)
        known = await recall_context(call, runtime)

        compiled = compile_call(call, known, runtime)

        anew = compile_call(replace(call, resumed=None), known, runtime)
        put_back.append(compiled.standing is not None)
        assert _sent(compiled) == _sent(anew)
        await keep_call(call, compiled, runtime)
    # The first gets its block; one in a text that is wrapped for it has two places.
    assert put_back == [False, *[placement == "turn"] * 3]


def _sent(compiled: Compiled) -> Compiled:
    sighting = compiled.sighting and replace(compiled.sighting, conversation="")
    told = compiled.compile and replace(
        compiled.compile, started_at=0.0, duration_seconds=0.0
    )
    return replace(compiled, standing=None, sighting=sighting, compile=told)


async def test_a_block_that_the_ledger_lost_is_not_put_back(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    turns = [user(LONG), tool_use("t1"), tool_result("t1", "found")]
    first, second = stories(turns)
    call = await call_of(runtime, first)
    compiled = compile_call(call, await recall_context(call, runtime), runtime)
    await keep_call(call, compiled, runtime)
    await runtime.ledger.commit({call.chain[0]: ()})

    call = await call_of(runtime, second)
    compiled = compile_call(call, await recall_context(call, runtime), runtime)

    assert call.resumed is not None
    assert call.resumed.standing is not None
    assert compiled.standing is None
    assert compiled.body == second
