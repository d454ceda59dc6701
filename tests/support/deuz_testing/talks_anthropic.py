"""What applications do with the official `anthropic` package, as talks to record.

Rules:
- Models are those of the fake provider; their names choose what they do.
- As agents do, the cache marker moves to the newest turn with each request.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
from anthropic import Anthropic, AsyncAnthropic, beta_tool

from deuz_testing.talks_openai import QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk

# The clock, and a length that follows the token counts inside.
_VARYING = ("date", "content-length")
MARKER: Any = {"cache_control": {"type": "ephemeral"}}
MARKED_SYSTEM: Any = [{"type": "text", "text": SYSTEM, **MARKER}]
TOOL: Any = {
    "name": "read_log",
    "description": "Return the newest lines of a log.",
    "input_schema": {
        "type": "object",
        "properties": {"service": {"type": "string"}, "lines": {"type": "integer"}},
        "required": ["service", "lines"],
    },
}


def marked(messages: list[Any]) -> list[Any]:
    """Return the messages with the cache marker on the newest one."""
    newest = messages[-1]
    content = newest["content"]
    blocks = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    last = {**blocks[-1], **MARKER}
    return [*messages[:-1], {**newest, "content": [*blocks[:-1], last]}]


def results_of(content: list[Any]) -> list[Any]:
    """Return the results of the calls in an answer, as the user's next content."""
    return [
        {"type": "tool_result", "tool_use_id": block["id"], "content": RESULT}
        for block in content
        if block["type"] == "tool_use"
    ]


def talk_buffered() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = []
    with Anthropic() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = client.messages.create(
                model="fake",
                max_tokens=256,
                system=MARKED_SYSTEM,
                messages=marked(messages),
            )
            results.append(answer.model_dump(mode="json"))
            messages.append({"role": "assistant", "content": _content(answer)})
    return results


def talk_streamed_async() -> list[Any]:
    async def run() -> list[Any]:
        results: list[Any] = []
        messages: list[Any] = []
        async with AsyncAnthropic() as client:
            for question in QUESTIONS:
                messages.append({"role": "user", "content": question})
                stream = await client.messages.create(
                    model="fake",
                    max_tokens=256,
                    system=SYSTEM,
                    messages=messages,
                    cache_control={"type": "ephemeral"},
                    stream=True,
                )
                events = [event.model_dump(mode="json") async for event in stream]
                results.append(events)
                text = "".join(
                    event["delta"]["text"]
                    for event in events
                    if event["type"] == "content_block_delta"
                )
                messages.append({"role": "assistant", "content": text})
        return results

    return asyncio.run(run())


def talk_with_stream_helper() -> list[Any]:
    """Signed thinking, a call, its result; the helper puts the answer together."""
    results: list[Any] = []
    messages: list[Any] = []
    with Anthropic() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            for _ in range(2):
                with client.messages.stream(
                    model="fake-thinking-tools",
                    max_tokens=2_048,
                    thinking={"type": "enabled", "budget_tokens": 1_024},
                    system=MARKED_SYSTEM,
                    tools=[TOOL],
                    messages=marked(messages),
                ) as stream:
                    results.append([event.type for event in stream])
                    answer = stream.get_final_message()
                results.append(answer.model_dump(mode="json"))
                content = _content(answer)
                messages.append({"role": "assistant", "content": content})
                if results_of(content):
                    messages.append({"role": "user", "content": results_of(content)})
    return results


def talk_with_tools() -> list[Any]:
    """An agent's loop: three calls at once, their results, an answer; three times."""

    async def run() -> list[Any]:
        results: list[Any] = []
        messages: list[Any] = []
        async with AsyncAnthropic() as client:
            for question in QUESTIONS:
                messages.append({"role": "user", "content": question})
                while True:
                    answer = await client.messages.create(
                        model="fake-tools-3",
                        max_tokens=512,
                        system=MARKED_SYSTEM,
                        tools=[TOOL],
                        messages=marked(messages),
                    )
                    results.append(answer.model_dump(mode="json"))
                    content = _content(answer)
                    messages.append({"role": "assistant", "content": content})
                    if answer.stop_reason != "tool_use":
                        break
                    messages.append({"role": "user", "content": results_of(content)})
        return results

    return asyncio.run(run())


@beta_tool
def read_log(service: str, lines: int) -> str:
    """Return the newest lines of a log.

    Args:
        service: whose log
        lines: how many
    """
    return f"{service}: {lines} lines\n{RESULT}"


def talk_with_tool_runner() -> list[Any]:
    """The SDK's own loop: it calls the tool and sends the result by itself.

    Without a thread: where the server holds the history, there is none to resend.
    """
    with Anthropic() as client:
        runner = client.beta.messages.tool_runner(
            model="fake-tools",
            max_tokens=512,
            system=MARKED_SYSTEM,
            tools=[read_log],
            thread=False,
            messages=[{"role": "user", "content": QUESTIONS[2]}],
        )
        return [message.model_dump(mode="json") for message in runner]


def talk_into_errors() -> list[Any]:
    """A broken rule, a forged signature, a busy server, an unknown model."""
    question: Any = [{"role": "user", "content": QUESTIONS[0]}]
    orphan: Any = [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "none", "content": "?"}],
        }
    ]
    forged: Any = [
        *question,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "never said", "signature": "Zm9yZ2Vk"},
                {"type": "text", "text": "Yes."},
            ],
        },
        *question,
    ]
    with Anthropic(max_retries=1, timeout=20) as client:

        def send(messages: Any, model: str = "fake") -> list[Any]:
            return _failure(
                lambda: client.messages.create(
                    model=model, max_tokens=64, messages=messages
                )
            )

        return [
            send(orphan),
            send(forged),
            send(question, "fake-error-529"),
            send([]),
            _failure(lambda: client.models.retrieve("no-such-model")),
        ]


def talk_beside_the_messages() -> list[Any]:
    """Calls that are only passed on, and raw answers with their header lines."""
    question: Any = [{"role": "user", "content": QUESTIONS[0]}]
    with Anthropic() as client:
        counted = client.messages.count_tokens(
            model="fake", system=SYSTEM, messages=question
        )
        raw = client.messages.with_raw_response.create(
            model="fake",
            max_tokens=64,
            messages=question,
            extra_headers={"anthropic-beta": "context-1m-2025-08-07"},
        )
        models = [model.id for model in client.models.list()]
        header = {k: v for k, v in raw.headers.items() if k not in _VARYING}
        body = json.loads(raw.http_response.content)
        return [
            counted.input_tokens,
            raw.http_response.status_code,
            header,
            body,
            models,
        ]


def _content(answer: Any) -> list[Any]:
    """Return the content as history, without the members that were not sent."""
    return [
        block.model_dump(mode="json", exclude_none=True) for block in answer.content
    ]


def _failure(act: Callable[[], object]) -> list[Any]:
    try:
        act()
    except anthropic.APIStatusError as fault:
        kind = type(fault).__name__
        return [kind, fault.status_code, fault.message, fault.body, fault.request_id]
    return ["no error"]


ANTHROPIC_TALKS = (
    Talk("anthropic-buffered", "anthropic", talk_buffered),
    Talk("anthropic-streamed-async", "anthropic", talk_streamed_async),
    Talk("anthropic-stream-helper", "anthropic", talk_with_stream_helper),
    Talk("anthropic-tools", "anthropic", talk_with_tools),
    Talk("anthropic-tool-runner", "anthropic", talk_with_tool_runner),
    Talk("anthropic-errors", "anthropic", talk_into_errors, False),
    Talk("anthropic-beside", "anthropic", talk_beside_the_messages, False),
)
