"""The official SDKs must not notice that the provider is a fake."""

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.provider import provider_in_thread, running_provider

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
ANTHROPIC_TOOL: Any = {"name": "weather", "input_schema": SCHEMA}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": SCHEMA, "strict": True},
}
RESPONSES_TOOL: Any = {
    "type": "function",
    "name": "weather",
    "parameters": SCHEMA,
    "strict": True,
}
USER: Any = {"role": "user", "content": "How is the weather?"}
WORDS = "was read and understood"


class Place(BaseModel):
    city: str


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with provider_in_thread() as served:
        yield served


@pytest.fixture
def claude(provider: FakeProvider) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=provider.url, api_key="k", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def gpt(provider: FakeProvider) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=provider.url + "/v1", api_key="k", max_retries=0
    ) as client:
        yield client


def test_anthropic_plays_a_whole_tool_exchange_with_thinking(
    claude: anthropic.Anthropic,
) -> None:
    model = "fake-thinking-tools"
    messages: list[Any] = [USER]
    with claude.messages.stream(
        model=model, max_tokens=99, messages=messages, tools=[ANTHROPIC_TOOL]
    ) as stream:
        called: Any = stream.get_final_message()
    thinking, call = called.content
    assert (thinking.type, call.type) == ("thinking", "tool_use")
    assert called.stop_reason == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
    blocks = [block.model_dump(exclude_none=True) for block in called.content]
    messages += [{"role": "assistant", "content": blocks}]
    messages += [{"role": "user", "content": [result]}]

    answered: Any = claude.messages.create(
        model=model, max_tokens=99, messages=messages, tools=[ANTHROPIC_TOOL]
    )

    assert call.input == {"city": "example city"}
    assert WORDS in answered.content[-1].text
    assert answered.stop_reason == "end_turn"


def test_anthropic_streams_text_as_it_comes(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="fake", max_tokens=99, messages=[USER]) as stream:
        pieces = list(stream.text_stream)
        final: Any = stream.get_final_message()

    assert len(pieces) > 1
    assert "".join(pieces) == final.content[0].text
    assert final.usage.output_tokens > 1


def test_anthropic_counts_lists_and_parses(claude: anthropic.Anthropic) -> None:
    count = claude.messages.count_tokens(model="fake", messages=[USER])
    models = list(claude.models.list())
    parsed = claude.messages.parse(
        model="fake", max_tokens=99, messages=[USER], output_format=Place
    )

    assert count.input_tokens > 0
    assert claude.models.retrieve(models[0].id) == models[0]
    assert parsed.parsed_output == Place(city="example city")


def test_anthropic_raises_the_providers_errors(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="non-empty"):
        claude.messages.create(
            model="fake",
            max_tokens=9,
            messages=[{"role": "user", "content": [{"type": "text", "text": ""}]}],
        )
    with pytest.raises(anthropic.InternalServerError):
        claude.messages.create(model="fake-error-500", max_tokens=9, messages=[USER])


async def test_the_async_clients_stream_too() -> None:
    async with (
        running_provider() as provider,
        anthropic.AsyncAnthropic(base_url=provider.url, api_key="k") as claude,
        openai.AsyncOpenAI(base_url=provider.url + "/v1", api_key="k") as gpt,
    ):
        async with claude.messages.stream(
            model="fake", max_tokens=99, messages=[USER]
        ) as messages:
            text = await messages.get_final_text()
        async with gpt.responses.stream(model="fake", input="hi") as responses:
            response = await responses.get_final_response()
        chunks = await gpt.chat.completions.create(
            model="fake-tools", messages=[USER], tools=[CHAT_TOOL], stream=True
        )
        called = [chunk async for chunk in chunks]

    assert WORDS in text
    assert WORDS in response.output_text
    assert called[-1].choices[0].finish_reason == "tool_calls"


def test_chat_plays_a_whole_tool_exchange(gpt: openai.OpenAI) -> None:
    messages: list[Any] = [USER]
    with gpt.chat.completions.stream(
        model="fake-tools-2",
        messages=messages,
        tools=[CHAT_TOOL],
        stream_options={"include_usage": True},
    ) as stream:
        called = stream.get_final_completion()
    message = called.choices[0].message
    calls = message.tool_calls or []
    messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"} for call in calls
    ]

    answered = gpt.chat.completions.create(
        model="fake-tools-2", messages=messages, tools=[CHAT_TOOL]
    )

    assert [call.function.parsed_arguments for call in calls] == [
        {"city": "example city"}
    ] * 2
    assert called.usage is not None
    assert called.usage.prompt_tokens > 0
    assert WORDS in (answered.choices[0].message.content or "")


def test_responses_play_a_whole_tool_exchange_without_state(
    gpt: openai.OpenAI,
) -> None:
    model = "fake-thinking-tools"
    items: list[Any] = [USER]
    with gpt.responses.stream(
        model=model,
        input=items,
        tools=[RESPONSES_TOOL],
        store=False,
        include=["reasoning.encrypted_content"],
    ) as stream:
        called: Any = stream.get_final_response()
    reasoning, call = called.output
    assert (reasoning.type, call.type) == ("reasoning", "function_call")
    items += [item.model_dump(exclude={"parsed_arguments"}) for item in called.output]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    items.append(output)

    answered = gpt.responses.create(
        model=model, input=items, tools=[RESPONSES_TOOL], store=False
    )

    assert call.parsed_arguments == {"city": "example city"}
    assert WORDS in answered.output_text
    assert answered.status == "completed"


def test_responses_continue_from_held_state(gpt: openai.OpenAI) -> None:
    first = gpt.responses.create(model="fake", input="hi")

    second = gpt.responses.create(
        model="fake", input="more", previous_response_id=first.id
    )

    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens


def test_openai_lists_and_parses(gpt: openai.OpenAI) -> None:
    chat = gpt.chat.completions.parse(
        model="fake", messages=[USER], response_format=Place
    )
    response = gpt.responses.parse(model="fake", input="where?", text_format=Place)

    assert chat.choices[0].message.parsed == Place(city="example city")
    assert response.output_parsed == Place(city="example city")
    assert "fake" in [model.id for model in gpt.models.list()]


def test_openai_raises_the_providers_errors(gpt: openai.OpenAI) -> None:
    orphan: Any = {"role": "tool", "tool_call_id": "a", "content": "x"}

    with pytest.raises(openai.BadRequestError, match="preceeding message"):
        gpt.chat.completions.create(model="fake", messages=[USER, orphan])
    with pytest.raises(openai.RateLimitError):
        gpt.responses.create(model="fake-error-429", input="hi")


def test_a_streamed_overflow_of_responses_is_told_by_events() -> None:
    with (
        provider_in_thread(FakeProvider(window_tokens=10)) as provider,
        openai.OpenAI(base_url=provider.url + "/v1", api_key="k") as gpt,
        gpt.responses.create(model="fake", input="x" * 400, stream=True) as stream,
    ):
        *_, error, failed = stream

    assert error.type == "error"
    assert error.code == "context_length_exceeded"
    assert failed.type == "response.failed"


async def test_many_clients_at_once_get_their_own_answers() -> None:
    async with (
        running_provider() as provider,
        openai.AsyncOpenAI(base_url=provider.url + "/v1", api_key="k") as gpt,
    ):
        answers = await asyncio.gather(
            *(gpt.responses.create(model="fake", input=f"q{n}") for n in range(20))
        )

    assert len({answer.output_text for answer in answers}) == 20
    assert len({answer.id for answer in answers}) == 20
