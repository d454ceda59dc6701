"""What applications do with the official `ollama` package, as talks to record."""

import asyncio
from contextlib import closing
from typing import Any

import ollama
from ollama import AsyncClient, Client

from deuz_testing.talks_openai import CHAT_TOOL, QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk

OPTIONS = {"num_ctx": 32_768, "temperature": 0.2}
SYSTEM_MESSAGE = {"role": "system", "content": SYSTEM}


def _told(answer: Any) -> Any:
    return answer.model_dump(mode="json", exclude_none=True)


def talk_buffered() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = [SYSTEM_MESSAGE]
    with closing(Client()) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = client.chat(model="fake", messages=messages, options=OPTIONS)
            results.append(_told(answer))
            messages.append(answer.message)
    return results


def talk_streamed() -> list[Any]:
    results: list[Any] = []
    messages: list[Any] = [SYSTEM_MESSAGE]
    with closing(Client()) as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            stream = client.chat(
                model="fake-thinking", messages=messages, options=OPTIONS, stream=True
            )
            chunks = list(stream)
            results.append([_told(chunk) for chunk in chunks])
            text = "".join(chunk.message.content or "" for chunk in chunks)
            messages.append({"role": "assistant", "content": text})
    return results


def talk_with_tools_async() -> list[Any]:
    """An agent's loop: two calls at once, their results, an answer; three times."""

    async def run() -> list[Any]:
        results: list[Any] = []
        messages: list[Any] = [SYSTEM_MESSAGE]
        client = AsyncClient()
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            while True:
                answer = await client.chat(
                    model="fake-tools-2",
                    messages=messages,
                    tools=[CHAT_TOOL],
                    options=OPTIONS,
                )
                results.append(_told(answer))
                messages.append(answer.message)
                if not answer.message.tool_calls:
                    break
                messages += [
                    {
                        "role": "tool",
                        "tool_name": call.function.name,
                        "content": RESULT,
                    }
                    for call in answer.message.tool_calls
                ]
        await client.close()  # type: ignore[no-untyped-call]  # It has no types.
        return results

    return asyncio.run(run())


def talk_of_one_prompt() -> list[Any]:
    with closing(Client()) as client:
        whole = client.generate(model="fake", system=SYSTEM, prompt=QUESTIONS[0])
        lines = list(client.generate(model="fake", prompt=QUESTIONS[1], stream=True))
        return [_without_context(_told(answer)) for answer in (whole, *lines)]


def talk_of_prompts_that_go_on() -> list[Any]:
    """The server holds what was said: it comes back as numbers."""
    with closing(Client()) as client:
        first = client.generate(model="fake", prompt=QUESTIONS[0])
        second = client.generate(model="fake", prompt=QUESTIONS[1], context=[7, 7])
    return [_without_context(_told(first)), _without_context(_told(second))]


def _without_context(told: Any) -> Any:
    # Its numbers follow the token counts.
    return {key: value for key, value in told.items() if key != "context"}


def talk_into_errors() -> list[Any]:
    failures: list[Any] = []
    question = {"role": "user", "content": QUESTIONS[0]}
    with closing(Client()) as client:
        for model, messages in (("fake", []), ("fake-error-503", [question])):
            try:
                client.chat(model=model, messages=messages)
            except ollama.ResponseError as fault:
                failures.append([fault.status_code, fault.error])
    return failures


def talk_of_models() -> list[Any]:
    with closing(Client()) as client:
        return [model.model for model in client.list().models]


OLLAMA_TALKS = (
    Talk("ollama-buffered", "ollama_chat", talk_buffered),
    Talk("ollama-streamed", "ollama_chat", talk_streamed),
    Talk("ollama-tools-async", "ollama_chat", talk_with_tools_async),
    Talk("ollama-prompt", "ollama_generate", talk_of_one_prompt, is_conversation=False),
    Talk(
        "ollama-prompts-that-go-on",
        "ollama_generate",
        talk_of_prompts_that_go_on,
        is_conversation=False,
    ),
    Talk("ollama-errors", "ollama_chat", talk_into_errors, is_conversation=False),
    Talk("ollama-models", "ollama_chat", talk_of_models, is_conversation=False),
)
