import asyncio
from dataclasses import replace
from typing import Any

import pytest

from deuz_proxy.edge.service import Service
from deuz_proxy.errors import HeadTooLarge, UpstreamUnreachable
from deuz_proxy.observe.events import FaultCaught
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenClient, GivenRequest, Said, ScriptedUpstreams
from deuz_testing.waiting import until

BODY = anthropic_body([user("q")])


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runtime(told: Told) -> Runtime:
    return make_runtime(make_config(mode="observe"), told)


async def serve(runtime: Runtime, incoming: Any, client: Any) -> Service:
    service = Service(lambda: runtime)
    await service(incoming, client)
    assert service.in_flight == 0
    return service


def answers(runtime: Runtime, answer: Any) -> None:
    assert isinstance(runtime.upstreams, ScriptedUpstreams)
    runtime.upstreams.answers.put_nowait(answer)


async def test_a_fault_of_the_line_becomes_an_answer_and_the_outcome_of_its_event(
    runtime: Runtime, told: Told
) -> None:
    client = GivenClient()
    answers(runtime, UpstreamUnreachable(upstream="u"))

    await serve(runtime, GivenRequest(BODY), client)

    assert client.status == 502
    assert client.body.startswith(b'{"type":"error"')
    assert (told.last.outcome, told.last.error) == (
        "upstream_error",
        "upstream_unreachable",
    )
    assert told.faults == []


async def test_an_upstream_that_cannot_be_reached_is_told_once_in_a_while(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    runtime = replace(runtime, monotonic=lambda: now[0])
    service = Service(lambda: runtime)
    for passed in (0.0, 59.0, 2.0):
        now[0] += passed
        answers(runtime, UpstreamUnreachable(upstream="http://u", kind="refused"))
        await service(GivenRequest(BODY), GivenClient())

    assert [record.getMessage() for record in caplog.records] == [
        "upstream http://u cannot be reached: connection refused; "
        "see upstreams.anthropic.url"
    ] * 2


async def test_a_place_that_does_not_exist_is_answered_and_counted_as_other(
    runtime: Runtime, told: Told
) -> None:
    client = GivenClient()

    await serve(runtime, GivenRequest(BODY, "/@nobody/x"), client)

    assert client.status == 404
    assert told.of(FaultCaught) == [FaultCaught("other", "admit", "unknown_upstream")]
    assert told.in_flight == 0


async def test_a_foreign_fault_is_answered_as_ours_without_its_words(
    runtime: Runtime, told: Told
) -> None:
    class Odd(GivenClient):
        def finish(self) -> None:
            raise RuntimeError("canary")

    client = Odd()
    answers(runtime, Said(200, (b"{}",)))

    await serve(runtime, GivenRequest(BODY), client)

    assert client.is_aborted
    assert told.faults == [("forward", "sidecar_fault")]
    assert (told.last.outcome, told.last.error) == ("refused", "sidecar_fault")


async def test_a_client_that_is_gone_when_it_is_answered_hurts_nobody(
    runtime: Runtime, told: Told
) -> None:
    class Gone(GivenClient):
        def start(self, *_: Any) -> None:
            raise ConnectionResetError

    client = Gone()
    answers(runtime, UpstreamUnreachable(upstream="u"))

    await serve(runtime, GivenRequest(BODY), client)

    assert client.is_aborted


async def test_a_request_that_is_cancelled_is_not_answered(
    runtime: Runtime, told: Told
) -> None:
    client = GivenClient()
    service = Service(lambda: runtime)
    task = asyncio.ensure_future(service(GivenRequest(BODY), client))
    await until(lambda: service.in_flight == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert client.status is None
    assert service.in_flight == 0
    assert told.last.outcome == "client_closed"


async def test_a_request_keeps_the_runtime_it_came_in_with(told: Told) -> None:
    first = make_runtime(make_config(mode="observe"), told)
    second = make_runtime(make_config(mode="off"), told)
    current = [first]
    service = Service(lambda: current[0])
    task = asyncio.ensure_future(service(GivenRequest(BODY), GivenClient()))
    await until(lambda: service.in_flight == 1)
    current[0] = second
    answers(first, Said(200, (b"{}",)))
    await task

    assert told.last.mode == "observe"


@pytest.mark.parametrize(
    ("asked", "start"),
    [
        ("/v1/messages?beta=true", b'{"type":"error"'),
        ("/v1/chat/completions", b'{"error":{"message"'),
        ("/nowhere", b'{"error":{"'),
        (None, b'{"error":{"'),
    ],
)
def test_what_was_not_read_is_refused_in_the_shape_of_what_was_asked_for(
    runtime: Runtime, asked: str | None, start: bytes
) -> None:
    body = Service(lambda: runtime).refuse(HeadTooLarge(limit=9, unit="lines"), asked)

    assert body.startswith(start)
    assert b'"code":"head_too_large"' in body
