"""Overflow of the wires whose paths and streams differ: Gemini in all forms, Ollama."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deuz_proxy.config.load import parse_config
from deuz_proxy.config.model import Config
from deuz_proxy.demo.provider import FakeProvider, ProviderRequest, Reply, Text
from deuz_testing.line import Line, running_line
from deuz_testing.provider import running_provider

pytestmark = pytest.mark.e2e

LONG = "The river runs past the mill and on to the sea. " * 40
WINDOW = 6_000
NOTES = "They talk about rivers and mills."
GEMINI = "/v1beta/models/gemini-2.5-pro"
FORMS = {
    "gemini": f"{GEMINI}:generateContent?key=k",
    "gemini-events": f"{GEMINI}:streamGenerateContent?alt=sse&key=k",
    "gemini-array": f"{GEMINI}:streamGenerateContent?key=k",
    "ollama": "/api/chat",
    "ollama-lines": "/api/chat",
}
CONFIG = """
upstreams:
  gemini: {{url: "{url}", wire: gemini, placement: {placement}}}
  ollama: {{url: "{url}", wire: ollama, placement: {placement}}}
routes:
  - {{path: "/v1beta/*", mode: compile}}
  - {{path: /api/chat, mode: compile}}
"""


def config(url: str, placement: str) -> Config:
    text = CONFIG.format(url=url, placement=placement)
    return parse_config(text, name="test", folder=Path(), environ={})


def provider(placement: str) -> FakeProvider:
    def script(request: ProviderRequest) -> Reply | None:
        is_summary = b"It has to make room." in request.body
        return Reply((Text(NOTES),)) if is_summary else None

    return FakeProvider(
        window_tokens=WINDOW, script=script, alternate=placement == "part"
    )


def turns_of(count: int) -> list[tuple[str, str]]:
    turns = [("user", "Tell me of rivers.")]
    for number in range(count):
        turns += [
            ("assistant", f"{number}: {LONG}"),
            ("user", f"Go on, part {number}."),
        ]
    return turns


def body_of(form: str, turns: Sequence[tuple[str, str]]) -> dict[str, Any]:
    if form.startswith("gemini"):
        contents = [
            {
                "role": "model" if role == "assistant" else role,
                "parts": [{"text": text}],
            }
            for role, text in turns
        ]
        return {
            "contents": contents,
            "systemInstruction": {"parts": [{"text": "Speak of water."}]},
        }
    messages = [{"role": role, "content": text} for role, text in turns]
    return {
        "model": "llama3",
        "messages": [{"role": "system", "content": "Speak of water."}, *messages],
        "options": {"num_ctx": WINDOW},
        "truncate": False,
        "stream": form == "ollama-lines",
    }


async def ask(
    line: Line, form: str, turns: Sequence[tuple[str, str]]
) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(line.url + FORMS[form], json=body_of(form, turns)) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("placement", ["turn", "part"])
async def test_an_outgrown_conversation_is_recovered_once_and_goes_on(
    form: str, placement: str
) -> None:
    async with (
        running_provider(provider(placement)) as upstream,
        running_line(config(upstream.url, placement), sources=[]) as line,
    ):
        turns = turns_of(16)

        status, text = await ask(line, form, turns)

        assert status == 200, text
        assert NOTES not in text
        told = line.told.last
        assert [o.outcome for o in told.overflows] == ["recovered"]
        asked = len(upstream.requests)
        for number in range(4):
            turns = [*turns, ("assistant", "Fine."), ("user", f"More, {number}?")]
            status, _ = await ask(line, form, turns)
            assert status == 200
            assert line.told.last.overflows == ()
        # Paid for once, and the summary was asked for as one whole answer.
        assert len(upstream.requests) == asked + 4
    assert [logged.rule for logged in upstream.refused] == ["overflow"]
    summary = upstream.requests[1]
    if form.startswith("gemini"):
        assert summary.raw_path == f"{GEMINI}:generateContent?key=k"
    else:
        asked_with = json.loads(summary.body)
        assert (asked_with["stream"], asked_with["options"]["num_ctx"]) == (
            False,
            WINDOW,
        )
    assert sum(f.sidecar_mutations for f in line.told.finished) == 0


@pytest.mark.parametrize("form", FORMS)
async def test_what_cannot_fit_comes_back_as_the_provider_said_it(form: str) -> None:
    turns = [("user", LONG * 20)]
    async with (
        running_provider(provider("part")) as upstream,
        running_line(config(upstream.url, "part"), sources=[]) as line,
    ):
        answered = await ask(line, form, turns)
        direct = Line(upstream.url, line.told, line.runtime, line.service)
        wanted = await ask(direct, form, turns)

    assert answered == wanted
    assert answered[0] == 400
    assert line.told.last.overflows[0].outcome == "cannot_fit"


async def test_a_prompt_that_ollama_cuts_in_silence_is_told_as_an_overflow() -> None:
    body = body_of("ollama", turns_of(60))
    del body["truncate"]
    async with (
        running_provider(provider("part")) as upstream,
        running_line(config(upstream.url, "part"), sources=[]) as line,
        aiohttp.ClientSession() as session,
        session.post(line.url + "/api/chat", json=body) as answer,
    ):
        assert answer.status == 200
        counted = (await answer.json())["prompt_eval_count"]

    (overflow,) = line.told.last.overflows
    assert (overflow.stage, overflow.outcome) == ("silent", "observed")
    assert overflow.limit_tokens == WINDOW
    assert counted <= WINDOW
