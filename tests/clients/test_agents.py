"""Coding agents behind `deuz-sidecar exec`: what arrives, comes back, and is told."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest

from deuz_proxy.demo.provider import LoggedRequest
from deuz_testing.agents import AGENTS, Agent, AgentRecorder
from deuz_testing.sidecar import Json
from deuz_testing.ways import (
    COMPILE,
    DIRECT,
    OBSERVE,
    RULE,
    Recording,
    blocks_of,
    end_to_end_lines,
    is_lifted,
    said_counts,
    without_inserted,
)

pytestmark = pytest.mark.e2e

EVERY = pytest.mark.parametrize("agent", [pytest.param(a, id=a.name) for a in AGENTS])
STEADY = pytest.mark.parametrize(
    "agent",
    [
        pytest.param(a, id=a.name)
        for a in AGENTS
        if is_lifted(a.wire) and not a.is_rewriting
    ],
)
REWRITING = pytest.mark.parametrize(
    "agent", [pytest.param(a, id=a.name) for a in AGENTS if a.is_rewriting]
)
LIFTED = pytest.mark.parametrize(
    "agent", [pytest.param(a, id=a.name) for a in AGENTS if is_lifted(a.wire)]
)
ANY_WAY = pytest.mark.parametrize("way", [OBSERVE, COMPILE])
ANSWER = re.compile(r"Answer [0-9a-f]{8}: turn (\d+) was read and understood\.")


def main_requests(agent: Agent, recording: Recording) -> list[LoggedRequest]:
    """Return the requests of the conversation; agents ask beside it for a title."""
    bodies = [(r, json.loads(r.body)) for r in recording.requests if r.body]
    return [r for r, body in bodies if body.get("tools") or not agent.tool]


def main_told(recording: Recording) -> list[Json]:
    """Return what was told of the conversation: the one with the most requests."""
    names = [told["conversation"] for told in recording.told if told["conversation"]]
    main = max(names, key=names.count)
    return [told for told in recording.told if told["conversation"] == main]


def received(
    agent: Agent, recording: Recording
) -> Iterator[tuple[bytes, list[tuple[bytes, bytes]]]]:
    """Yield each request without what is made up anew: its line with body, its head.

    Sorted: some are sent at the same time.
    """
    seen = []
    for logged in recording.requests:
        line = f"{logged.method} {logged.raw_path} ".encode()
        head = [(n, agent.settled(v)) for n, v in end_to_end_lines(logged)]
        seen.append((line + agent.settled(logged.body), head))
    yield from sorted(seen)


@pytest.mark.parametrize("way", [DIRECT, OBSERVE, COMPILE])
@EVERY
def test_each_command_ends_well_with_the_answer_of_the_model(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    recording = started(agent, way)

    codes = [result[0] for result in recording.results]
    answers = [ANSWER.findall(str(result[1])) for result in recording.results]

    assert codes == [0, 0], recording.results
    assert answers == [[str(turn)] for turn in agent.answers]


@pytest.mark.parametrize("way", [DIRECT, OBSERVE, COMPILE])
@EVERY
def test_its_tool_ran_and_the_result_reached_the_model(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    requests = main_requests(agent, started(agent, way))

    assert b"The database pool has twenty connections." in requests[-1].body
    assert len(requests) == agent.requests


@EVERY
def test_observed_the_provider_receives_what_it_receives_directly(
    agent: Agent, started: AgentRecorder
) -> None:
    direct, observed = started(agent, DIRECT), started(agent, OBSERVE)

    assert list(received(agent, observed)) == list(received(agent, direct))


@EVERY
def test_nothing_is_refused(agent: Agent, started: AgentRecorder) -> None:
    refused = {way: started(agent, way).refused for way in (DIRECT, OBSERVE, COMPILE)}

    assert refused == {DIRECT: [], OBSERVE: [], COMPILE: []}


@EVERY
def test_compiled_without_the_inserted_ranges_the_bodies_are_the_agents(
    agent: Agent, started: AgentRecorder
) -> None:
    direct, compiled = started(agent, DIRECT), started(agent, COMPILE)

    own = [body for body, _ in received(agent, direct)]
    sent = [body for body, _ in received(agent, compiled)]

    assert list(map(without_inserted, sent, own)) == own


@STEADY
def test_compiled_a_block_stays_at_the_same_bytes(
    agent: Agent, started: AgentRecorder
) -> None:
    requests = main_requests(agent, started(agent, COMPILE))

    placed = [blocks_of(logged.body) for logged in requests]

    assert RULE.encode() in placed[0][0][1]
    for earlier, later in pairwise(placed):
        assert later[: len(earlier)] == earlier


@LIFTED
def test_compiled_the_note_that_fits_the_second_question_is_placed(
    agent: Agent, started: AgentRecorder
) -> None:
    told = main_told(started(agent, COMPILE))

    records = [r for placed in told[-1]["placements"] for r in placed["records"]]

    assert records[0] == "rules/tone"
    assert len(records) == len(set(records)) > 1


@ANY_WAY
@STEADY
def test_a_conversation_is_extended_command_after_command(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    recording = started(agent, way)

    verdicts = [told["verdict"]["verdict"] for told in main_told(recording)]

    # opencode asks for a title at the same time: which of the two is the side call, if
    # one is, is chance.
    assert verdicts[0] in {"first", "side_call"}
    assert verdicts[1:] == ["extended"] * (len(verdicts) - 1)
    assert len(verdicts) == len(main_requests(agent, recording))


@ANY_WAY
@REWRITING
def test_a_history_that_the_agent_rewrites_is_a_break_of_its_own(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    verdicts = [told["verdict"] for told in started(agent, way).told]

    assert [verdict["verdict"] for verdict in verdicts] == ["first", "broken"]
    assert verdicts[-1]["owner"] == "client"


@REWRITING
def test_compiled_each_question_of_a_rewritten_history_has_a_block_of_its_own(
    agent: Agent, started: AgentRecorder
) -> None:
    recording = started(agent, COMPILE)

    placed = [blocks_of(r.body) for r in main_requests(agent, recording)]

    assert [len(blocks) for blocks in placed] == [1, 1]
    assert all(RULE.encode() in text for [(_, text)] in placed)


@pytest.mark.parametrize("way", [DIRECT, OBSERVE, COMPILE])
@REWRITING
def test_what_it_edited_stands_in_its_next_question(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    *_, last = main_requests(agent, started(agent, way))

    asked = [m for m in json.loads(last.body)["messages"] if m["role"] == "user"]

    assert sum("plan.txt\n```\nThe database" in m["content"] for m in asked) == 1


@ANY_WAY
@EVERY
def test_no_change_of_a_prefix_is_the_sidecars(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    told = started(agent, way).told

    owners = {t["verdict"]["owner"] for t in told if t["verdict"]}

    assert "sidecar" not in owners
    assert sum(t["sidecar_mutations"] for t in told) == 0


@ANY_WAY
@EVERY
def test_usage_is_told_as_the_provider_counted_it(
    agent: Agent, way: str, started: AgentRecorder
) -> None:
    recording = started(agent, way)

    counted = [
        said_counts(agent.wire, c)
        for logged in recording.requests
        if (c := logged.usage) and agent.asks_usage
    ]
    told = [
        (u["input_total"], u["cache_read"], u["output"])
        for t in recording.told
        if (u := t["usage"])
    ]

    silent = {t["usage_status"] for t in recording.told} == {"absent"}
    assert silent != agent.asks_usage
    # In any order: agents ask for several things at a time.
    assert Counter(told) == Counter(counted)
