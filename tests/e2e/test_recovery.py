"""Overflow against the fake provider: its windows, its words, its modelled cache."""

import re
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from deuz_proxy.demo.provider import FakeProvider, ProviderRequest, Reply, Text
from deuz_testing.line import Line, make_config, running_line
from deuz_testing.provider import running_provider

pytestmark = pytest.mark.e2e

MODEL = "claude-sonnet-4-5"
LONG = "The river runs past the mill and on to the sea. " * 40
PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}
HEADERS = {
    "x-api-key": "key-1",
    "Authorization": "Bearer key-1",
    "anthropic-version": "2023-06-01",
}


def provider(window: int = 6_000) -> FakeProvider:
    def script(request: ProviderRequest) -> Reply | None:
        text = request.body.decode()
        if "It has to make room." in text:
            return Reply((Text("They talk about rivers and mills."),))
        return None

    return FakeProvider(window_tokens=window, minimum_cached_tokens=64, script=script)


def turns_of(count: int) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "Tell me of rivers."}]
    for number in range(count):
        turns += [
            {"role": "assistant", "content": f"{number}: {LONG}"},
            {"role": "user", "content": f"Go on, part {number}."},
        ]
    return turns


async def ask(
    line: Line, wire: str, turns: Sequence[Any], *, stream: bool = False
) -> tuple[int, str, dict[str, str]]:
    system = {"role": "system", "content": "Speak of water."}
    history = [*turns] if wire == "anthropic" else [system, *turns]
    name = "input" if wire == "responses" else "messages"
    body: dict[str, Any] = {"model": MODEL, name: history, "stream": stream}
    if wire == "anthropic":
        body["max_tokens"] = 100
    url = line.url + PATHS[wire]
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=HEADERS) as answer,
    ):
        return answer.status, await answer.text(), dict(answer.headers)


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("placement", ["turn", "part"])
async def test_an_outgrown_conversation_is_recovered_once_and_goes_on(
    wire: str, stream: bool, placement: str
) -> None:
    async with running_provider(provider()) as upstream:
        upstream.alternate = placement == "part"
        config = make_config(upstream.url, placement=placement)
        async with running_line(config, sources=[]) as line:
            turns = turns_of(16)
            status, text, _ = await ask(line, wire, turns, stream=stream)

            assert status == 200
            assert "was read and understood" in text or stream
            told = line.told.last
            assert [o.outcome for o in told.overflows] == ["recovered"]
            # Responses say that it is too long, and no number.
            limit = None if wire == "responses" else 6_000
            assert told.overflows[0].limit_tokens == limit
            asked = len(upstream.requests)

            for number in range(11):
                turns = [
                    *turns,
                    {"role": "assistant", "content": "Fine."},
                    {"role": "user", "content": f"More, part {number}?"},
                ]
                status, _, _ = await ask(line, wire, turns, stream=stream)
                assert status == 200
                assert line.told.last.overflows == ()

            # Paid for once: one request each, nothing refused by the provider's rules.
            assert len(upstream.requests) == asked + 11
    assert [r.rule for r in upstream.refused] == ["overflow"]
    if wire != "anthropic":
        for sent in (*upstream.requests[:1], *upstream.requests[2:]):
            assert b'"Speak of water."' in sent.body
    assert sum(f.sidecar_mutations for f in line.told.finished) == 0


@pytest.mark.parametrize("wire", PATHS)
async def test_what_cannot_fit_comes_back_as_the_provider_said_it(wire: str) -> None:
    async with (
        running_provider(provider(500)) as upstream,
        running_line(make_config(upstream.url), sources=[]) as line,
    ):
        turns = [{"role": "user", "content": LONG * 4}]
        status, text, lines = await ask(line, wire, turns)
        direct = Line(upstream.url, line.told, line.runtime, line.service)
        wanted = await ask(direct, wire, turns)

    number = re.compile("fake0+[0-9]+")
    assert (status, number.sub("", text)) == (wanted[0], number.sub("", wanted[1]))
    assert lines.keys() == wanted[2].keys()
    assert line.told.last.overflows[0].outcome == "cannot_fit"


async def test_with_recovery_off_the_provider_is_asked_once() -> None:
    more = "overflow: {recover: false}"
    async with running_provider(provider()) as upstream:
        config = make_config(upstream.url, more=more)
        async with running_line(config, sources=[]) as line:
            status, text, _ = await ask(line, "anthropic", turns_of(16))

        assert len(upstream.requests) == 1
    assert status == 400
    assert "prompt is too long" in text
    assert line.told.last.overflows[0].outcome == "observed"


async def test_context_yields_when_the_window_is_tight() -> None:
    rules = """
context:
  sources:
    - {id: rules, type: static, records: [{id: r1, text: "%s"}]}
""" % ("Answer in metres, never in miles. " * 60)
    async with (
        running_provider(provider()) as upstream,
        running_line(make_config(upstream.url, more=rules)) as line,
    ):
        turns: list[Any] = []
        for number in range(14):
            turns.append({"role": "user", "content": f"part {number}?"})
            status, _, _ = await ask(line, "anthropic", turns)
            assert status == 200
            turns.append({"role": "assistant", "content": f"{number}: {LONG}"})

    outcomes = [o.outcome for f in line.told.finished for o in f.overflows]
    assert outcomes
    assert set(outcomes) == {"recovered"}
    assert [r.rule for r in upstream.refused] == ["overflow"] * len(outcomes)
