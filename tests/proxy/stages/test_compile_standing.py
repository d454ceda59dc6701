from typing import Any

import pytest
from msgspec.structs import replace

from deuz_compiler import Append, Bare, Baseline, asks_to_condense
from deuz_proxy.calls import Call, Compiled, Known, Sighting
from deuz_proxy.placements import tell_placements
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.recall import recall_context, recall_here
from deuz_proxy.stages.settle import keep_call
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import admitted
from deuz_testing.line import RULE, FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest

# What is shorter is not looked for: it is read anew.
LONG = "word " * 300
EACH_TIME = "context: {refresh: {min_steps: 1, max_passes: 9}}"


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
    # What is put again has no edits.
    surface = compiled.surface and replace(compiled.surface, edits=(), blocks=())
    changes = {"sighting": sighting, "compile": told, "surface": surface}
    return replace(compiled, standing=None, reading=None, **changes)


@pytest.mark.parametrize("placement", ["turn", "part"])
async def test_a_further_block_is_laid_behind_those_that_stand_as_all_would_be(
    told: Told, source: FixedSource, placement: str
) -> None:
    config = make_config(placement=placement, more=EACH_TIME)
    runtime = make_runtime(config, told, sources=[source])
    asked = {"role": "user", "content": [{"type": "text", "text": LONG}]}
    laid_on = []
    for number, body in enumerate(stories([asked, *[assistant("a"), asked] * 3])):
        source.found = (replace(RULE, record_id=f"r{number}", text=f"Rule {number}."),)
        call = await call_of(runtime, body)
        known = await recall_context(call, runtime)

        compiled = compile_call(call, known, runtime)

        anew = compile_call(replace(call, resumed=None), known, runtime)
        assert compiled.surface is not None
        assert anew.surface is not None
        assert compiled.surface.blocks == anew.surface.blocks
        assert _sent(compiled) == _sent(anew)
        assert tell_placements(call, compiled, is_accepted=True) == tell_placements(
            call, anew, is_accepted=True
        )
        laid_on.append(len(compiled.operations) if compiled.standing else 0)
        await keep_call(call, compiled, runtime)
    assert laid_on == [0, 2, 3, 4]


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


TOOLS = [turn for at in "123" for turn in (tool_use(at), tool_result(at, "found"))]


async def served(runtime: Runtime, body: bytes) -> tuple[Call, Known, Compiled]:
    call = await call_of(runtime, body)
    known = recall_here(call, runtime) or await recall_context(call, runtime)
    compiled = compile_call(call, known, runtime)
    await keep_call(call, compiled, runtime)
    return call, known, compiled


async def test_a_break_of_what_is_put_again_is_told_as_of_what_is_laid_anew(
    told: Told, source: FixedSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    *before, last = stories([user(LONG), *TOOLS])
    for body in before:
        await served(runtime, body)
    call = await call_of(runtime, last)
    known = recall_here(call, runtime)
    assert known is not None
    inbound = compile_call(call, known, runtime).inbound
    assert inbound is not None
    # As if what stands had not been in what was sent before.
    bare = Sighting("c", (Baseline(inbound, inbound, call.at, 300.0),))
    monkeypatch.setattr(Tracker, "sight", lambda *_, **__: bare)

    compiled = compile_call(call, known, runtime)

    anew = compile_call(replace(call, resumed=None), known, runtime)
    assert compiled.surface is not None
    assert not compiled.surface.pieces
    assert compiled.verdict is not None
    assert compiled.verdict.owner == "sidecar"
    assert compiled.verdict.offset is not None
    assert compiled.verdict == anew.verdict


@pytest.mark.parametrize("turns", [3, 7])
async def test_what_the_ledger_holds_as_before_is_neither_read_nor_told_anew(
    told: Told, source: FixedSource, turns: int
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    *before, last = stories([user(LONG), *TOOLS][:turns])
    for body in before:
        await served(runtime, body)
    call = await call_of(runtime, last)
    standing = call.resumed.standing if call.resumed else None

    known = recall_here(call, runtime)

    assert known is not None
    compiled = compile_call(call, known, runtime)
    anew = compile_call(replace(call, resumed=None), known, runtime)
    assert standing is not None
    assert standing.reading is not None
    assert known.reading is not None
    assert known.reading.held is standing.reading.held
    # Its surface is not drawn anew: nobody looks at it.
    assert replace(_sent(compiled), surface=None) == replace(_sent(anew), surface=None)
    again = tell_placements(call, compiled, is_accepted=True)
    assert again is standing.told
    assert again == tell_placements(call, anew, is_accepted=True)


@pytest.mark.parametrize("turns", [3, 7])
@pytest.mark.parametrize("change", ["forget", "drop", "add"])
async def test_a_change_of_the_ledger_is_seen_at_the_next_request(
    told: Told, source: FixedSource, change: str, turns: int
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    *before, last = stories([user(LONG), *TOOLS][:turns])
    *_, (call, _, compiled) = [await served(runtime, body) for body in before]
    assert compiled.body != before[-1]

    if change == "forget":
        await runtime.ledger.rewrite(lambda held: (Bare(is_redacted=True),) * len(held))
    else:
        place = 0 if change == "drop" else len(call.chain) - 1
        held = () if change == "drop" else (Append(b"N", (), 1),)
        await runtime.ledger.commit({call.chain[place]: held})
    call, known, compiled = await served(runtime, last)

    assert compiled.standing is None
    anew = compile_call(replace(call, resumed=None), replace(known), runtime)
    assert compiled.body == anew.body
    assert (compiled.body == last) is (change != "add")


async def test_what_is_kept_while_an_answer_is_awaited_is_seen_by_who_goes_on(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    turns = [user(LONG), *TOOLS]
    for body in stories(turns[:3]):
        await served(runtime, body)
    # Two that go on from there: one is answered late, when the other was served.
    call = await call_of(runtime, anthropic_body(turns[:5]))
    known = recall_here(call, runtime)
    assert known is not None
    compiled = compile_call(call, known, runtime)
    await runtime.ledger.commit({call.chain[-1]: (Append(b"N", (), 1),)})
    other = [*turns[:3], tool_use("4"), tool_result("4", "found")]
    await served(runtime, anthropic_body(other))
    await keep_call(call, compiled, runtime)

    call, known, compiled = await served(runtime, anthropic_body(turns))

    anew = compile_call(replace(call, resumed=None), known, runtime)
    assert [*known.operations] == [0, 4]
    assert compiled.body == anew.body


ASKING = "*Briefly* summarize this partial conversation about programming."


async def test_whether_a_request_asks_to_condense_is_told_however_it_goes_on(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    turns = [user(LONG), *TOOLS]
    asked = []
    for system in ("Be brief.", ASKING):
        for end in range(1, len(turns) + 1, 2):
            body = anthropic_body(turns[:end], system=system)
            call, _, compiled = await served(runtime, body)
            asked.append(call.is_condensing)
            assert call.envelope is not None
            assert call.is_condensing == asks_to_condense(call.envelope)
            # The block stands in both: what leads a history is no part of its lineage.
            assert compiled.body != body
    assert asked == [False] * 4 + [True] * 4
