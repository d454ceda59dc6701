"""What applications do with the official `google-genai` package, as talks to record.

Rules:
- Models are those of the fake provider; their names choose what they do.
- The chat of the SDK keeps the history itself, signatures of thoughts included.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from google import genai
from google.genai import errors, types

from deuz_testing.talks_openai import QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk

# The clock, and a length that follows the token counts inside.
_VARYING = ("date", "content-length")
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="read_log",
            description="Return the newest lines of a log.",
            parameters_json_schema={
                "type": "object",
                "properties": {
                    "service": {"type": "string"},
                    "lines": {"type": "integer"},
                },
                "required": ["service", "lines"],
            },
        )
    ]
)
CONFIG = types.GenerateContentConfig(
    system_instruction=SYSTEM, max_output_tokens=256, temperature=0.2
)


def _told(answer: types.GenerateContentResponse) -> Any:
    told = answer.model_dump(mode="json", exclude_none=True)
    headers = told.get("sdk_http_response", {}).get("headers", {})
    for name in _VARYING:
        headers.pop(name, None)
        headers.pop(name.title(), None)
    return told


def _results_of(answer: types.GenerateContentResponse) -> list[types.Part]:
    return [
        types.Part.from_function_response(
            name=call.name or "", response={"output": RESULT, "code": 0}
        )
        for call in answer.function_calls or ()
    ]


def talk_buffered() -> list[Any]:
    """A chat of the SDK, which keeps and resends the turns."""
    with genai.Client() as client:
        chat = client.chats.create(model="fake", config=CONFIG)
        return [_told(chat.send_message(question)) for question in QUESTIONS]


def talk_streamed() -> list[Any]:
    """A streamed chat: each chunk becomes a turn of the model in the history."""
    with genai.Client() as client:
        chat = client.chats.create(model="fake", config=CONFIG)
        return [
            [_told(chunk) for chunk in chat.send_message_stream(question)]
            for question in QUESTIONS
        ]


def talk_streamed_async() -> list[Any]:
    async def run() -> list[Any]:
        results: list[Any] = []
        contents: list[Any] = []
        async with genai.Client().aio as client:
            for question in QUESTIONS:
                contents.append(types.UserContent(question))
                stream = await client.models.generate_content_stream(
                    model="fake-thinking", contents=contents, config=CONFIG
                )
                chunks = [chunk async for chunk in stream]
                results.append([_told(chunk) for chunk in chunks])
                text = "".join(chunk.text or "" for chunk in chunks)
                contents.append(types.ModelContent(text))
        return results

    return asyncio.run(run())


def talk_with_tools() -> list[Any]:
    """An agent's loop: two signed calls at once, their results, an answer; thrice."""
    results: list[Any] = []
    contents: list[Any] = []
    config = CONFIG.model_copy(update={"tools": [TOOL]})
    with genai.Client() as client:
        for question in QUESTIONS:
            contents.append(types.UserContent(question))
            while True:
                answer = client.models.generate_content(
                    model="fake-tools-2", contents=contents, config=config
                )
                results.append(_told(answer))
                contents.append(answer.candidates[0].content)  # type: ignore[index]  # The fake one gives one.
                responses = _results_of(answer)
                if not responses:
                    break
                contents.append(types.UserContent(responses))
    return results


def talk_with_tools_streamed() -> list[Any]:
    results: list[Any] = []
    config = CONFIG.model_copy(update={"tools": [TOOL]})
    with genai.Client() as client:
        chat = client.chats.create(model="fake-tools", config=config)
        for question in QUESTIONS:
            message: Any = question
            while message:
                chunks = list(chat.send_message_stream(message))
                results.append([_told(chunk) for chunk in chunks])
                message = [part for chunk in chunks for part in _results_of(chunk)]
    return results


def read_log(service: str, lines: int) -> str:
    """Return the newest lines of a log.

    Args:
        service: whose log
        lines: how many
    """
    return f"{service}: {lines} lines\n{RESULT}"


def talk_with_automatic_calls() -> list[Any]:
    """The SDK's own loop: it calls the function and sends the result by itself."""
    config = CONFIG.model_copy(update={"tools": [read_log]})
    with genai.Client() as client:
        chat = client.chats.create(model="fake-tools", config=config)
        return [_told(chat.send_message(QUESTIONS[2]))]


def talk_into_errors() -> list[Any]:
    """A broken rule, a forged signature, a busy server, an unknown model."""
    orphan = types.UserContent(
        [types.Part.from_function_response(name="f", response={})]
    )
    forged = types.ModelContent(
        [types.Part(text="Yes.", thought_signature=b"never signed")]
    )
    question = types.UserContent(QUESTIONS[0])
    options = types.HttpOptions(retry_options=types.HttpRetryOptions(attempts=1))
    with genai.Client(http_options=options) as client:

        def send(contents: Any, model: str = "fake") -> list[Any]:
            return _failure(
                lambda: client.models.generate_content(model=model, contents=contents)
            )

        return [
            send([orphan]),
            send([question, forged, question]),
            send([question], "fake-error-503"),
            _failure(lambda: client.models.get(model="no-such-model")),
        ]


def talk_beside_the_contents() -> list[Any]:
    """Calls that are only passed on: counts and models."""
    with genai.Client() as client:
        counted = client.models.count_tokens(model="fake", contents=QUESTIONS[0])
        found = client.models.get(model="fake")
        return [counted.total_tokens, found.name, found.input_token_limit]


def _failure(call: Callable[[], object]) -> list[Any]:
    try:
        call()
    except errors.APIError as fault:
        return [type(fault).__name__, fault.code, fault.status, fault.message]
    raise AssertionError("the provider accepted what it should refuse")


GEMINI_TALKS = (
    Talk("gemini-buffered", "gemini", talk_buffered),
    # This chat resends each chunk as a turn of the model: its turns never alternate.
    Talk("gemini-streamed", "gemini", talk_streamed, settings={"alternate": False}),
    Talk("gemini-streamed-async", "gemini", talk_streamed_async),
    Talk("gemini-tools", "gemini", talk_with_tools),
    Talk(
        "gemini-tools-streamed",
        "gemini",
        talk_with_tools_streamed,
        settings={"alternate": False},
    ),
    Talk("gemini-automatic-calls", "gemini", talk_with_automatic_calls),
    Talk("gemini-errors", "gemini", talk_into_errors, is_conversation=False),
    Talk("gemini-beside", "gemini", talk_beside_the_contents, is_conversation=False),
)
