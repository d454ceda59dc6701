import json

import pytest

from deuz_proxy.observe.events import Overflow
from deuz_proxy.overflows import window_of
from deuz_testing.bodies import anthropic_body, assistant, chat_body, user
from deuz_testing.conversation import (
    admitted,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest, Said

LONG = chat_body([user("0123456789 " * 20_000)], model="small")
SHORT = chat_body([user("hi")], model="small")
SMALL = "models: {small: {context_window: 8000}}"
CHAT = "/v1/chat/completions"


@pytest.fixture
def told() -> Told:
    return Told()


async def seen(told: Told, body: bytes, said: Said) -> tuple[Overflow, ...]:
    runtime = make_runtime(make_config(mode="observe", more=SMALL), told)
    talk = conversation(runtime) >> request(body, target=CHAT) << upstream_gets(body)
    await (talk >> upstream_says(said) << client_gets(b"".join(said.chunks)))
    return told.last.overflows


async def test_a_refusal_without_words_is_judged_by_size(told: Told) -> None:
    (overflow,) = await seen(told, LONG, Said(400))

    assert (overflow.stage, overflow.outcome) == ("rejected", "observed")


async def test_a_small_request_refused_without_words_is_no_overflow(
    told: Told,
) -> None:
    assert await seen(told, SHORT, Said(400)) == ()


@pytest.mark.parametrize(
    ("kind", "count"), [(b"ThrottlingException", 0), (b"ValidationException", 1)]
)
async def test_words_that_two_errors_share_are_told_apart_by_their_header(
    told: Told, kind: bytes, count: int
) -> None:
    body = json.dumps({"message": "Too many input tokens for this model"}).encode()
    said = Said(400, (body,), ((b"x-amzn-ErrorType", kind),))

    assert len(await seen(told, LONG, said)) == count


async def test_a_full_window_that_ended_the_answer_is_told(told: Told) -> None:
    choice = {
        "index": 0,
        "finish_reason": "model_context_window_exceeded",
        "message": assistant("and"),
    }
    body = json.dumps({"id": "c", "choices": [choice]}).encode()

    (overflow,) = await seen(told, LONG, Said(200, (body,)))

    assert (overflow.stage, overflow.outcome) == ("silent", "observed")


async def test_a_good_answer_is_no_overflow(told: Told) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": assistant("Fine.")}
    usage = {"prompt_tokens": 60_000, "completion_tokens": 2}
    body = json.dumps({"id": "c", "choices": [choice], "usage": usage}).encode()

    assert await seen(told, SHORT, Said(200, (body,))) != ()  # More than the window.
    assert await seen(told, chat_body([user("hi")]), Said(200, (body,))) == ()


@pytest.mark.parametrize(
    ("beta", "tokens"), [(b"context-1m-2025-08-07", 1_000_000), (b"other", 200_000)]
)
async def test_a_long_context_beta_is_part_of_the_window(
    told: Told, beta: bytes, tokens: int
) -> None:
    runtime = make_runtime(make_config(), told)
    given = GivenRequest(
        anthropic_body([user("hi")], model="claude-sonnet-4-5"),
        headers=((b"anthropic-beta", beta),),
    )

    window = window_of(await admitted(runtime, given), runtime)

    assert window is not None
    assert window.room(0) == tokens


async def test_what_is_not_understood_has_no_window(told: Told) -> None:
    runtime = make_runtime(make_config(), told)
    given = GivenRequest(b"no json")

    assert window_of(await admitted(runtime, given), runtime) is None
