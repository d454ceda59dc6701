"""A turn that was answered without a block stays without one, whoever goes on from it.

Two requests may share their first turns: a retry, a regenerated answer, agents with the
same task. A block that only one of them got would change the other's prefix.
"""

from dataclasses import replace
from typing import Any

import pytest

from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    ASK,
    BLOCK,
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.line import RULE, FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Asked, ScriptedUpstreams

pytestmark = pytest.mark.e2e

TURNS = [user("one"), assistant("a"), user("two"), assistant("b"), user("three")]
BODY = anthropic_body(ASK)
OK = anthropic_answer()
REFRESH = (b"x-deuz-refresh", b"1")


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


async def answered(runtime: Runtime, turns: list[Any]) -> list[Any]:
    """Send the turns, let them be accepted, and return what was sent."""
    sent: list[Any] = []

    def look(asked: Asked) -> bool:
        sent.extend(asked.payload["messages"])
        return True

    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk = talk << upstream_gets(look) >> upstream_says(OK)
    await (talk << client_gets(OK.chunks[0]))
    return sent


async def test_a_turn_answered_without_a_block_never_gets_one(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    source.found = TimeoutError()
    await answered(runtime, TURNS[:1])
    source.found = (RULE,)
    later = await answered(runtime, TURNS[:3])
    assert later == [*TURNS[:3], user(BLOCK)]

    again = await answered(runtime, TURNS[:1])
    further = await answered(runtime, TURNS)

    assert again == TURNS[:1]
    assert further == [*TURNS[:3], user(BLOCK), *TURNS[3:]]
    assert told.last.sidecar_mutations == 0


async def test_earlier_turns_of_a_history_first_seen_long_stay_as_they_were(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    await answered(runtime, TURNS)

    back = await answered(runtime, TURNS[:3])

    assert back == TURNS[:3]
    assert len(source.asked) == 1


async def test_a_block_placed_meanwhile_is_not_taken_away_by_a_late_source(
    told: Told,
) -> None:
    slow, quick = FixedSource(found=()), FixedSource()
    runtime = make_runtime(make_config(), told, sources=[slow])
    talk = conversation(runtime) >> request(BODY) << upstream_gets(BODY)
    await talk
    await answered(
        replace(runtime, sources=(quick,), upstreams=ScriptedUpstreams()), ASK
    )

    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert await answered(runtime, ASK) == [*ASK, user(BLOCK)]


async def test_who_asks_for_it_gets_a_block_behind_a_bare_turn(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    source.found = ()
    await answered(runtime, ASK)
    source.found = (RULE,)

    talk = conversation(runtime) >> request(BODY, REFRESH)
    talk <<= upstream_gets(with_block(ASK, 0))

    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
