"""Twelve turns of an agent with tools: added context costs the client no cached token.

The provider is the fake one with its models of both kinds of prompt cache; the clients
are the official SDKs.
"""

from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from deuz_testing.talks_anthropic import TOOL, marked
from deuz_testing.talks_openai import CHAT_TOOL
from deuz_testing.talks_responses import RESPONSES_TOOL, STATELESS
from deuz_testing.twelve import (
    LOG,
    QUESTIONS,
    SYSTEM,
    TOPICS,
    Count,
    compare,
    uncached_tokens,
)
from deuz_testing.ways import (
    COMPILE,
    COMPILE_PART,
    OBSERVE,
    Recorder,
    Recording,
    Talk,
)

pytestmark = pytest.mark.e2e

MODEL = "fake-tools"


def talk_to_claude() -> list[Any]:
    """Ask, let the tool be called, send its result; the marker moves along."""
    results: list[Any] = []
    messages: list[Any] = []
    system: Any = [
        {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}
    ]
    with Anthropic() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            for _ in range(2):
                answer = client.messages.create(
                    model=MODEL,
                    max_tokens=256,
                    system=system,
                    tools=[TOOL],
                    messages=marked(messages),
                )
                results.append(answer.model_dump(mode="json"))
                content = answer.model_dump(mode="json", exclude_none=True)["content"]
                messages.append({"role": "assistant", "content": content})
                if answer.stop_reason == "tool_use":
                    result = {
                        "type": "tool_result",
                        "tool_use_id": content[0]["id"],
                        "content": LOG,
                    }
                    messages.append({"role": "user", "content": [result]})
    return results


def talk_to_gpt() -> list[Any]:
    """The same by chat completions, whose cache needs no marker."""
    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            for _ in range(2):
                answer = client.chat.completions.create(
                    model=MODEL, messages=messages, tools=[CHAT_TOOL]
                )
                results.append(answer.model_dump(mode="json"))
                message = answer.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                messages += [
                    {"role": "tool", "tool_call_id": call.id, "content": LOG}
                    for call in message.tool_calls or ()
                ]
    return results


def talk_to_codex() -> list[Any]:
    """The same by Responses, with nothing kept at the provider."""
    results: list[Any] = []
    items: list[Any] = [{"role": "developer", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            items.append({"role": "user", "content": question})
            for _ in range(2):
                answer = client.responses.create(
                    model=f"{MODEL}-thinking",
                    input=items,
                    tools=[RESPONSES_TOOL],
                    **STATELESS,
                )
                results.append(answer.model_dump(mode="json"))
                items += [item.model_dump(exclude_none=True) for item in answer.output]
                items += [
                    {
                        "type": "function_call_output",
                        "call_id": item.call_id,
                        "output": LOG,
                    }
                    for item in answer.output
                    if item.type == "function_call"
                ]
    return results


# As the providers count: from 1024 tokens on, OpenAI in steps of 128.
_CACHE = {"minimum_cached_tokens": 1_024, "cache_step_tokens": 128}
TALKS = (
    Talk("twelve-anthropic", "anthropic", talk_to_claude, True, _CACHE, TOPICS),
    Talk("twelve-chat", "openai_chat", talk_to_gpt, True, _CACHE, TOPICS),
    Talk("twelve-responses", "openai_responses", talk_to_codex, True, _CACHE, TOPICS),
)
EACH = pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
COMPILING = pytest.mark.parametrize("way", [COMPILE, COMPILE_PART])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    def make_folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    return Recorder(make_folder)


def counts_of(recording: Recording) -> list[Count]:
    return [
        Count(logged.usage.input_total, logged.usage.cache_read)
        for logged in recording.requests
        if logged.usage is not None
    ]


@COMPILING
@EACH
def test_cached_tokens_with_context_on_are_within_two_percent_of_off(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    off, on = counts_of(recorded(talk, OBSERVE)), counts_of(recorded(talk, way))

    compared = compare(off, on, is_marked=talk.wire == "anthropic")

    assert len(compared) == 2 * len(QUESTIONS)
    assert [c for c in compared if not c.is_within_tolerance] == []
    assert all(c.without > 0 for c in compared[1:])


@COMPILING
@EACH
def test_context_is_added_in_most_turns_and_paid_for_only_until_it_is_cached(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    off, on = counts_of(recorded(talk, OBSERVE)), counts_of(recorded(talk, way))
    blocks = [told["placements"] for told in recorded(talk, way).told]

    added = on[-1].total - off[-1].total
    paid = uncached_tokens(on) - uncached_tokens(off)

    # Once when it is placed, once when the marker has moved behind it.
    times = 2 if talk.wire == "anthropic" else 1
    steps = 0 if talk.wire == "anthropic" else 128 * len(on)
    assert len(blocks[-1]) >= 8
    assert added > 0
    assert paid <= times * added + steps


@COMPILING
@EACH
def test_twelve_turns_are_one_extended_conversation_without_a_refusal(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    recording = recorded(talk, way)

    verdicts = [told["verdict"]["verdict"] for told in recording.told]
    losses = [told["verdict"]["lost_tokens"] for told in recording.told]

    assert recording.refused == []
    assert verdicts == ["first", *["extended"] * 23]
    assert not any(losses)
    assert sum(told["sidecar_mutations"] for told in recording.told) == 0
