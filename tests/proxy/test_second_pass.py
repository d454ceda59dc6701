"""The second pass, where the ledger, the client or a part of ours is lost meanwhile."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deuz_compiler import Candidate, Operation
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    ASK,
    LONG,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    is_shorter,
    is_summary,
    request,
    told_turns,
    tool_turns,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import ScriptedUpstreams

OK = anthropic_answer()
NOTES = anthropic_answer("They talk about rivers.")
OVERFLOW = anthropic_overflow()
PRUNING = "overflow: {layers: [prune-tool-results]}"
AHEAD = """
models: {claude-sonnet-4-5: {context_window: 8000}}
overflow: {layers: [prune-tool-results], compact_at: 0.5, keep_recent_steps: 1}
"""


class LostLedger:
    """A ledger that takes what it is given, and does not answer while it `is_lost`."""

    def __init__(self) -> None:
        self.is_lost = False
        self.held: dict[bytes, tuple[Operation, ...]] = {}

    def read_here(self, keys: Sequence[bytes], known: Any = None) -> None:
        """Say that it is to be waited for."""

    def held_here(self, keys: Sequence[bytes]) -> None:
        """Say so here, too."""

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        if self.is_lost:
            raise StoreFailed(store="test", operation="read")
        return [self.held.get(key, ()) for key in keys]

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        self.held.update(operations)

    async def close(self) -> None:
        self.held.clear()


@pytest.fixture
def told() -> Told:
    return Told()


async def with_a_block(ledger: LostLedger, told: Told, *, more: str) -> Runtime:
    """Return a runtime whose ledger holds a block behind the first turn."""
    config = make_config(more=more)
    runtime = make_runtime(config, told, sources=[FixedSource()], ledger=ledger)
    opening = tool_turns()[:1]
    talk = conversation(runtime) >> request(anthropic_body(opening))
    talk <<= upstream_gets(with_block(opening, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    return runtime


@pytest.mark.parametrize("more", [PRUNING, AHEAD], ids=["recovered", "ahead"])
async def test_nothing_is_kept_over_what_the_ledger_did_not_tell(
    told: Told, more: str
) -> None:
    ledger, turns = LostLedger(), tool_turns()
    runtime = await with_a_block(ledger, told, more=more)
    before = dict(ledger.held)
    ledger.is_lost = True

    talk = conversation(runtime) >> request(anthropic_body(turns))
    if more == PRUNING:
        talk <<= upstream_gets(anthropic_body(turns))
        talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    kept = {key: ledger.held[key] for key in before}, len(ledger.held)
    ledger.is_lost = False
    turns = [*turns, assistant("Fine."), user("More?")]
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(lambda asked: "<deuz_context" in asked.body.decode())
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [c.layer for c in told.finished[1].compactions] == ["prune-tool-results"]
    assert kept == (before, len(before))
    verdict = told.last.verdict
    assert verdict is not None
    # Where it is made shorter again, that is what was meant.
    cause = "ledger_lost" if more == PRUNING else "overflow_recovery"
    assert (verdict.cause, verdict.owner) == (cause, "sidecar")


async def test_a_client_that_leaves_in_the_second_pass_is_told_with_all_it_cost(
    told: Told,
) -> None:
    turns = told_turns()
    runtime = make_runtime(make_config(), told)
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    await talk
    assert talk.serving is not None
    talk.serving.cancel()

    with pytest.raises(asyncio.CancelledError):
        await talk.serving

    finished = told.last
    assert finished.outcome == "client_closed"
    (overflow,) = finished.overflows
    assert (overflow.stage, overflow.outcome) == ("rejected", "observed")
    assert [c.purpose for c in finished.upstream_calls] == ["chat", "summarize"]
    assert finished.upstream_calls[1].usage is not None
    assert all(reply.is_closed for reply in talk.upstream.replies)


async def test_a_summary_is_paid_for_though_what_follows_it_fails(told: Told) -> None:
    rule = Candidate(
        source="rules",
        kind="memory",
        record_id="r1",
        text=LONG * 4,
        requirement="mandatory",
    )
    config = make_config(on_error="closed")
    runtime = make_runtime(config, told, sources=[FixedSource([rule])])
    turns = told_turns()
    # A third of it would fit: with the rule, no history that is left does.
    overflow = anthropic_overflow(tokens=10, limit=3)
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(lambda asked: "<deuz_context" in asked.body.decode())
    talk >>= upstream_says(overflow)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    await (talk << client_gets(overflow.chunks[0]))

    finished = told.last
    assert told.faults == [("recover", "context_refused")]
    assert [o.outcome for o in finished.overflows] == ["surfaced"]
    assert [c.purpose for c in finished.upstream_calls] == ["chat", "summarize"]
    assert finished.upstream_calls[1].usage is not None


class OddSource(FixedSource):
    """Offers a record that passes for a candidate, but cannot be compiled."""

    async def find(self, query: Query) -> Sequence[Candidate]:
        return [Candidate(source="rules", kind="memory", record_id="r", text=None)]  # type: ignore[arg-type]


async def test_what_could_not_be_compiled_is_not_tried_again(told: Told) -> None:
    runtime = make_runtime(make_config(more=PRUNING), told, sources=[OddSource()])
    turns = [*tool_turns(), assistant("Read."), *ASK]
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [o.outcome for o in told.last.overflows] == ["recovered"]
    assert told.faults == [("compile", "sidecar_fault")]
    assert told.last.passthrough == "fault"


@pytest.mark.parametrize("layer", ["summarize", "prune-tool-results"])
@pytest.mark.parametrize("turns_back", [2, 4])
async def test_who_goes_back_into_what_was_shortened_is_asked_in_full(
    told: Told, layer: str, turns_back: int
) -> None:
    more = f"overflow: {{layers: [{layer}], keep_recent_steps: 1}}"
    runtime = make_runtime(make_config(more=more), told)
    turns = told_turns() if layer == "summarize" else tool_turns()
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    if layer == "summarize":
        talk <<= upstream_gets(is_summary)
        talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    # The client has a step before the newest one answered again.
    earlier = turns[:-turns_back]

    talk = conversation(runtime) >> request(anthropic_body(earlier))
    talk <<= upstream_gets(lambda asked: asked.payload["messages"][-1] == earlier[-1])
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    verdict = told.last.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.owner) == ("overflow_recovery", "sidecar")
    assert told.last.sidecar_mutations == 0


FOLDING = "overflow: {layers: [summarize], keep_recent_steps: 2}"


async def test_equal_requests_that_are_shortened_one_by_one_lose_no_block(
    told: Told,
) -> None:
    source = FixedSource()
    runtime = make_runtime(make_config(more=FOLDING), told, sources=[source])
    asked = told_turns()
    blocks = with_block(asked, len(asked) - 1)
    rounds = [turn for at in "12" for turn in (tool_use(at), tool_result(at, "3"))]
    for end in range(0, len(rounds), 2):
        talk = conversation(runtime) >> request(anthropic_body([*asked, *rounds[:end]]))
        talk <<= upstream_gets(lambda asked: "<deuz_context" in asked.body.decode())
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    # A client that asks once more, as it got no answer in time.
    twins = [
        conversation(replace(runtime, upstreams=ScriptedUpstreams()))
        >> request(anthropic_body([*asked, *rounds]))
        << upstream_gets(lambda asked: "<deuz_context" in asked.body.decode())
        for _ in range(2)
    ]
    for twin in twins:
        await twin

    for twin in twins:
        talk = twin >> upstream_says(OVERFLOW) << upstream_gets(is_summary)
        talk >>= upstream_says(NOTES)
        talk <<= upstream_gets(lambda asked: len(asked.body) < len(blocks))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    source.found = ()
    # The summary is not in force where its last turn is the newest.
    talk = conversation(runtime) >> request(anthropic_body(asked))
    talk <<= upstream_gets(blocks)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [finished.sidecar_mutations for finished in told.finished] == [0] * 5
