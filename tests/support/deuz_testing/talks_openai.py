"""What applications do with the official `openai` package, as talks to record.

Rules:
- Models are those of the fake provider; their names choose what they do.
- Everything that the client understood is returned, also what it made of an error.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from deuz_testing.ways import Talk

SYSTEM = (
    "You are the on-call assistant of the orders team. Look before you guess. " * 12
)
QUESTIONS = (
    "What does our retry policy for payments say?",
    "When do releases stop, and who may release?",
    "How many connections has the pool of the database? Größe ≤ 20 “sure” 🙂?",
)
CHAT_TOOL: Any = {
    "type": "function",
    "function": {
        "name": "read_log",
        "description": "Return the newest lines of a log.",
        "parameters": {
            "type": "object",
            "properties": {"service": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["service", "lines"],
            "additionalProperties": False,
        },
    },
}
# The clock, and a length that follows the token counts inside.
_VARYING = ("date", "content-length")
RESULT = "10:42 payments order=41 status=retry wait=2s\n" * 8


class Finding(BaseModel):
    """What the model is to fill in."""

    service: str
    is_slow: bool


def talk_buffered() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = client.chat.completions.create(model="fake", messages=messages)
            results.append(answer.model_dump(mode="json"))
            messages.append(answer.choices[0].message.model_dump(exclude_none=True))
    return results


def talk_streamed_async() -> list[Any]:
    async def run() -> list[Any]:
        results: list[Any] = []
        messages: list[Any] = [{"role": "developer", "content": SYSTEM}]
        async with AsyncOpenAI() as client:
            for question in QUESTIONS:
                part = {"type": "text", "text": question}
                messages.append({"role": "user", "content": [part]})
                stream = await client.chat.completions.create(
                    model="fake",
                    messages=messages,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                chunks = [chunk async for chunk in stream]
                results.append([chunk.model_dump(mode="json") for chunk in chunks])
                text = "".join(
                    c.choices[0].delta.content or "" for c in chunks if c.choices
                )
                messages.append({"role": "assistant", "content": text})
        return results

    return asyncio.run(run())


def talk_with_stream_helper() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            with client.chat.completions.stream(
                model="fake",
                messages=messages,
                stream_options={"include_usage": True},
            ) as stream:
                results.append([event.type for event in stream])
                answer = stream.get_final_completion()
            results.append(answer.model_dump(mode="json"))
            text = answer.choices[0].message.content
            messages.append({"role": "assistant", "content": text})
    return results


def talk_with_tools() -> list[Any]:
    """An agent's loop: two calls at once, their results, an answer; three times."""
    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            while True:
                answer = client.chat.completions.create(
                    model="fake-tools-2", messages=messages, tools=[CHAT_TOOL]
                )
                results.append(answer.model_dump(mode="json"))
                message = answer.choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                if not message.tool_calls:
                    break
                messages += _results_of(message)
    return results


def talk_with_tools_streamed_async() -> list[Any]:
    async def run() -> list[Any]:
        results: list[Any] = []
        messages: list[Any] = [{"role": "system", "content": SYSTEM}]
        async with AsyncOpenAI() as client:
            for question in QUESTIONS:
                messages.append({"role": "user", "content": question})
                for _ in range(2):
                    async with client.chat.completions.stream(
                        model="fake-tools",
                        messages=messages,
                        tools=[CHAT_TOOL],
                        stream_options={"include_usage": True},
                    ) as stream:
                        answer = await stream.get_final_completion()
                    results.append(answer.model_dump(mode="json"))
                    message = answer.choices[0].message
                    messages.append(_resent(message))
                    messages += _results_of(message)
        return results

    return asyncio.run(run())


def _results_of(message: Any) -> list[Any]:
    return [
        {"role": "tool", "tool_call_id": call.id, "content": RESULT}
        for call in message.tool_calls or ()
    ]


def _resent(message: Any) -> dict[str, Any]:
    """Return the message as history: without what only the SDK adds to it."""
    kept: dict[str, Any] = message.model_dump(exclude_none=True)
    kept.pop("parsed", None)
    for call in kept.get("tool_calls", ()):
        call.pop("index", None)
        call["function"].pop("parsed_arguments", None)
    return kept


def talk_parsed() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = client.chat.completions.parse(
                model="fake", messages=messages, response_format=Finding
            )
            message = answer.choices[0].message
            assert message.parsed is not None
            results.append(message.parsed.model_dump())
            messages.append({"role": "assistant", "content": message.content})
    return results


def talk_into_errors() -> list[Any]:
    """A broken rule, a server's fault with a retry, an unknown model and path."""
    question: Any = [{"role": "user", "content": QUESTIONS[0]}]
    orphan: Any = [{"role": "tool", "tool_call_id": "none", "content": "?"}]
    with OpenAI(max_retries=1, timeout=20) as client:
        chat = client.chat.completions
        return [
            _failure(lambda: chat.create(model="fake", messages=orphan)),
            _failure(lambda: chat.create(model="fake-error-500", messages=question)),
            _failure(lambda: chat.create(model="fake", messages=[])),
            _failure(lambda: client.models.retrieve("no-such-model")),
            _failure(lambda: client.get("/no/such/path", cast_to=object)),
            _failure(lambda: client.responses.create(model="fake", input=orphan)),
        ]


def talk_beside_the_chat() -> list[Any]:
    """Calls that are only passed on, and raw answers with their header lines."""
    question: Any = [{"role": "user", "content": QUESTIONS[0]}]
    with OpenAI() as client:
        raw = client.chat.completions.with_raw_response.create(
            model="fake", messages=question, extra_headers={"X-Request-Note": "a, b"}
        )
        models = [model.id for model in client.models.list()]
        header = {k: v for k, v in raw.headers.items() if k not in _VARYING}
        return [raw.status_code, header, json.loads(raw.content), models]


def _failure(act: Callable[[], object]) -> list[Any]:
    try:
        act()
    except openai.APIStatusError as fault:
        kind = type(fault).__name__
        return [kind, fault.status_code, fault.message, fault.body, fault.request_id]
    return ["no error"]


OPENAI_TALKS = (
    Talk("openai-buffered", "openai_chat", talk_buffered),
    Talk("openai-streamed-async", "openai_chat", talk_streamed_async),
    Talk("openai-stream-helper", "openai_chat", talk_with_stream_helper),
    Talk("openai-tools", "openai_chat", talk_with_tools),
    Talk("openai-tools-streamed-async", "openai_chat", talk_with_tools_streamed_async),
    Talk("openai-parsed", "openai_chat", talk_parsed),
    Talk("openai-errors", "openai_chat", talk_into_errors, False),
    Talk("openai-beside", "openai_chat", talk_beside_the_chat, False),
)
