"""What applications do with the Responses API of the `openai` package.

Rules:
- As in `talks_openai`: the model's name chooses what it does, and everything that the
  client understood is returned.
- A talk either sends its whole history each time, or leaves it to the provider.
"""

import asyncio
from typing import Any

import openai
from openai import AsyncOpenAI, OpenAI

from deuz_testing.talks_openai import CHAT_TOOL, QUESTIONS, RESULT, SYSTEM
from deuz_testing.ways import Talk

RESPONSES_TOOL: Any = {"type": "function", "strict": True, **CHAT_TOOL["function"]}
# What a client sends that keeps nothing at the provider, reasoning included.
STATELESS: Any = {
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto"},
}


def talk_held_by_the_provider() -> list[Any]:
    """Each request is one question; what came before is with the provider."""
    results: list[Any] = []
    with OpenAI() as client:
        previous: Any = openai.omit
        for question in QUESTIONS:
            answer = client.responses.create(
                model="fake",
                instructions=SYSTEM,
                input=question,
                previous_response_id=previous,
            )
            results.append(answer.model_dump(mode="json"))
            previous = answer.id
    return results


def talk_from_a_string_on() -> list[Any]:
    """The first input is a string; then the same question stands in the list."""
    results: list[Any] = []
    with OpenAI() as client:
        items: Any = []
        for question in QUESTIONS:
            items.append({"role": "user", "content": question})
            answer = client.responses.create(
                model="fake",
                instructions=SYSTEM,
                input=question if len(items) == 1 else items,
                store=False,
            )
            results.append(answer.model_dump(mode="json"))
            items += [item.model_dump(exclude_none=True) for item in answer.output]
    return results


def talk_streamed() -> list[Any]:
    results: list[Any] = []
    with OpenAI() as client:
        items: list[Any] = [{"role": "developer", "content": SYSTEM}]
        for question in QUESTIONS:
            part = {"type": "input_text", "text": question}
            items.append({"type": "message", "role": "user", "content": [part]})
            with client.responses.stream(
                model="fake-thinking", input=items, **STATELESS
            ) as stream:
                results.append([event.type for event in stream])
                final = stream.get_final_response()
            results.append(final.model_dump(mode="json"))
            items += [_resent(item) for item in final.output]
    return results


def talk_with_tools() -> list[Any]:
    """An agent's loop: it thinks, calls two tools at once, and answers."""

    async def run() -> list[Any]:
        results: list[Any] = []
        items: list[Any] = []
        async with AsyncOpenAI() as client:
            for question in QUESTIONS:
                items.append({"role": "user", "content": question})
                for _ in range(2):
                    answer = await client.responses.create(
                        model="fake-tools-2-thinking",
                        input=items,
                        instructions=SYSTEM,
                        tools=[RESPONSES_TOOL],
                        **STATELESS,
                    )
                    results.append(answer.model_dump(mode="json"))
                    items += [_resent(item) for item in answer.output]
                    items += _outputs_of(answer)
        return results

    return asyncio.run(run())


def _outputs_of(answer: Any) -> list[Any]:
    return [
        {
            "type": "function_call_output",
            "call_id": item.call_id,
            "output": RESULT,
        }
        for item in answer.output
        if item.type == "function_call"
    ]


def _resent(item: Any) -> dict[str, Any]:
    """Return the item as history: without what only the SDK adds to it."""
    kept: dict[str, Any] = item.model_dump(exclude_none=True)
    kept.pop("parsed_arguments", None)
    for part in kept.get("content", ()):
        part.pop("parsed", None)
    return kept


RESPONSES_TALKS = (
    Talk("responses-held", "openai_responses", talk_held_by_the_provider, False),
    Talk("responses-string", "openai_responses", talk_from_a_string_on),
    Talk("responses-streamed", "openai_responses", talk_streamed),
    Talk("responses-tools", "openai_responses", talk_with_tools),
)
