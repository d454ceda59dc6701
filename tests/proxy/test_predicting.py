from typing import Any

import pytest

from deuz_compiler import redact_operations
from deuz_proxy.observe.events import Prediction, RequestFinished
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    ASK,
    anthropic_answer,
    client_gets,
    conversation,
    parts_of,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime

OK = anthropic_answer()
NEXT = [*ASK, assistant("9 km"), user("and back?")]


@pytest.fixture
def told() -> Told:
    return Told()


def shadow(told: Told, **changes: str) -> Runtime:
    config = make_config(mode="shadow", **changes)
    return make_runtime(config, told, sources=[FixedSource()])


async def send(
    runtime: Runtime, told: Told, turns: list[Any], **members: str
) -> RequestFinished:
    body = anthropic_body(turns, **members)
    talk = conversation(runtime) >> request(body)
    talk <<= upstream_gets(body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    return told.last


async def predicted(
    runtime: Runtime, told: Told, turns: list[Any], **members: str
) -> tuple[str, str, str | None]:
    """Send a request; return what is predicted of its prefix."""
    prediction = (await send(runtime, told, turns, **members)).prediction
    assert prediction is not None
    return prediction.prefix, prediction.verdict, prediction.cause


async def test_a_block_that_would_stay_keeps_the_prefix(told: Told) -> None:
    runtime = shadow(told)

    assert await predicted(runtime, told, ASK) == ("kept", "first", None)
    assert await predicted(runtime, told, NEXT) == ("kept", "extended", None)

    last = told.last
    assert last.prediction is not None
    assert last.placements[0].tokens == last.prediction.added_tokens > 0
    assert last.estimated_input_tokens is not None
    assert last.prediction.input_tokens == (
        last.estimated_input_tokens + last.prediction.added_tokens
    )


async def test_a_break_of_the_client_is_one_with_context_as_without(told: Told) -> None:
    runtime = shadow(told)
    await send(runtime, told, ASK, system="It is 10:41:00.")

    said = await predicted(runtime, told, NEXT, system="It is 10:42:00.")

    assert told.last.verdict is not None
    assert told.last.verdict.owner == "client"
    assert said == ("broken_by_client", "broken", told.last.verdict.cause)


async def test_a_record_forgotten_would_break_the_prefix_and_that_is_ours(
    told: Told,
) -> None:
    runtime = shadow(told)
    await send(runtime, told, ASK)
    await runtime.ledger.rewrite(lambda held: redact_operations(held, "", {"r1"}))

    said = await predicted(runtime, told, NEXT)

    assert said == ("broken_by_sidecar", "broken", "record_forgotten")
    # What was sent is the client's own: nothing of it broke.
    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "extended"
    assert told.last.sidecar_mutations == 0


async def test_a_block_that_was_lost_would_break_the_prefix(told: Told) -> None:
    runtime = shadow(told)
    await send(runtime, told, ASK)
    parts = {name: part for name, part in parts_of(runtime).items() if name != "ledger"}

    said = await predicted(make_runtime(runtime.config, told, **parts), told, NEXT)

    assert said == ("broken_by_sidecar", "broken", "evicted")


@pytest.mark.parametrize("mode", ["observe", "compile", "off"])
async def test_what_is_not_only_tried_has_no_prediction(told: Told, mode: str) -> None:
    runtime = make_runtime(make_config(mode=mode), told, sources=[FixedSource()])
    talk = conversation(runtime) >> request(anthropic_body(ASK))
    talk <<= upstream_gets(lambda asked: asked.body)

    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.prediction is None


async def test_who_is_held_out_has_one(told: Told) -> None:
    config = make_config(more="context: {holdout: 1}")
    runtime = make_runtime(config, told, sources=[FixedSource()])

    event = await send(runtime, told, ASK)

    assert event.group == "held_out"
    assert isinstance(event.prediction, Prediction)


async def test_a_probe_is_no_request_of_a_conversation(told: Told) -> None:
    runtime = shadow(told)
    body = anthropic_body(ASK, max_tokens=1)
    talk = conversation(runtime) >> request(body) << upstream_gets(body)

    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "side_call"
    assert told.last.prediction is None
