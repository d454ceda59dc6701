from collections.abc import Callable
from typing import Any

import pytest

from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    ASK,
    admitted,
    anthropic_answer,
    client_gets,
    conversation,
    parts_of,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Asked, GivenRequest

OK = anthropic_answer()
CREDENTIAL = ((b"x-api-key", b"key-1"),)


def line(share: str, told: Told | None = None, **parts: Any) -> Runtime:
    more = f"context: {{holdout: {share}}}"
    config = make_config(more=more, mode=parts.pop("mode", "compile"))
    source = parts.pop("source", FixedSource())
    return make_runtime(config, told or Told(), sources=[source], **parts)


async def group_of(runtime: Runtime, turns: list[Any], **members: Any) -> str | None:
    body = anthropic_body(turns, **members)
    return (await admitted(runtime, GivenRequest(body, headers=CREDENTIAL))).group


async def told_of(
    runtime: Runtime, told: Told, turns: list[Any], *lines: tuple[bytes, bytes]
) -> tuple[bytes, RequestFinished]:
    """Send a request; return the body that the upstream got, and what was told."""
    got: list[Asked] = []
    talk = conversation(runtime) >> request(anthropic_body(turns), *lines)
    talk <<= upstream_gets(kept_in(got))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    assert got[0].body is not None
    return got[0].body, told.last


def kept_in(got: list[Asked]) -> Callable[[Asked], object]:
    return lambda asked: not got.append(asked)  # type: ignore[func-returns-value]


async def test_share_of_many_conversations_is_the_configured_one() -> None:
    runtime = line("0.2")

    groups = [await group_of(runtime, [user(f"question {n}")]) for n in range(4_000)]

    # Five standard deviations of a fair draw; the draw itself is fixed.
    assert abs(groups.count("held_out") - 800) < 127
    assert groups.count("treated") == 4_000 - groups.count("held_out")


async def test_conversation_its_forks_and_other_replicas_stay_in_its_group() -> None:
    first, second = line("0.5"), line("0.5")
    seen = set()

    for number in range(40):
        opening = [user(f"question {number}")]
        group = await group_of(first, opening)
        longer = [*opening, assistant("a"), user("b")]
        fork = [*opening, assistant("a"), user("another way")]
        later = [await group_of(first, fork), await group_of(second, longer)]
        with_system = await group_of(second, longer, system="new every time")
        assert [*later, with_system] == [group] * 3
        seen.add(group)

    assert seen == {"treated", "held_out"}


async def test_a_larger_share_only_adds_conversations() -> None:
    held = []
    for share in ("0.1", "0.4"):
        runtime = line(share)
        groups = [await group_of(runtime, [user(f"q {n}")]) for n in range(300)]
        held.append({n for n, group in enumerate(groups) if group == "held_out"})

    assert held[0] < held[1]


async def test_who_is_held_out_is_measured_as_if_and_sent_as_is() -> None:
    told, source = Told(), FixedSource()
    runtime = line("1", told, source=source)

    body, event = await told_of(runtime, told, ASK)

    assert body == anthropic_body(ASK)
    assert (event.group, event.mode) == ("held_out", "shadow")
    assert [placement.state for placement in event.placements] == ["shadow"]
    assert event.compile is not None
    assert event.compile.tokens > 0
    assert event.verdict is not None
    assert len(source.asked) == 1


async def test_a_treated_conversation_gets_its_block() -> None:
    told = Told()

    # A share this small holds nobody out.
    body, event = await told_of(line("0.000001", told), told, ASK)

    assert b"Answer in metres." in body
    assert (event.group, event.mode) == ("treated", "compile")


async def test_prefix_of_a_conversation_held_out_extends_turn_by_turn() -> None:
    told = Told()
    runtime = line("1", told)
    turns = list(ASK)
    verdicts = []

    for number in range(3):
        body, event = await told_of(runtime, told, turns)
        assert body == anthropic_body(turns)
        assert event.verdict is not None
        verdicts.append(event.verdict.verdict)
        turns += [assistant("Far."), user(f"and {number}?")]

    assert verdicts == ["first", "extended", "extended"]
    assert [event.sidecar_mutations for event in told.finished] == [0, 0, 0]


async def test_a_holdout_that_ends_places_nothing_behind_answered_turns() -> None:
    told = Told()
    runtime = line("1", told)
    await told_of(runtime, told, ASK)
    treated = line("0", told, **parts_of(runtime))
    turns = [*ASK, assistant("Far."), user("and now?")]

    body, event = await told_of(treated, told, turns)

    assert body.startswith(anthropic_body(turns).rpartition(b"]")[0][:-1])
    assert event.group is None
    assert event.sidecar_mutations == 0
    assert [placement.turn for placement in event.placements] == [2]


@pytest.mark.parametrize("mode", ["observe", "shadow"])
async def test_a_route_that_changes_nothing_has_no_groups(mode: str) -> None:
    assert await group_of(line("0.5", mode=mode), ASK) is None


async def test_no_holdout_no_groups() -> None:
    assert await group_of(line("0"), ASK) is None


async def test_a_probe_is_in_no_group() -> None:
    assert await group_of(line("0.5"), ASK, max_tokens=1) is None


async def test_who_asks_for_less_is_in_no_group() -> None:
    told = Told()

    _, event = await told_of(line("1", told), told, ASK, (b"x-deuz-mode", b"observe"))

    assert (event.group, event.mode) == (None, "observe")


async def test_a_history_without_a_turn_is_in_no_group() -> None:
    assert await group_of(line("1"), []) is None
