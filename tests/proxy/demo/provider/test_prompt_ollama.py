from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.prompt_ollama import (
    ask_ollama,
    fit_ollama,
    render_ollama,
    window_of,
)

SYSTEM = {"role": "system", "content": "s" * 40}


def asked(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def request(wire: str = OLLAMA_CHAT, /, **members: Any) -> ProviderRequest:
    return ProviderRequest(wire, "m", True, members, b"")


def tokens(made: ProviderRequest) -> int:
    return sum(block.tokens for block in render_ollama(made))


def test_pictures_tools_and_calls_are_rendered() -> None:
    bare = request(messages=[asked("hi")])
    call = {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}

    for more in (
        {"messages": [{**asked("hi"), "images": ["aGk="]}]},
        {"messages": [asked("hi"), call]},
        {"messages": [asked("hi")], "tools": [{"function": {"name": "f"}}]},
    ):
        assert tokens(request(**more)) > tokens(bare)


def test_a_prompt_is_rendered_like_a_chat_of_one_question() -> None:
    prompt = request(OLLAMA_GENERATE, prompt="hi", system=SYSTEM["content"])
    chat = request(messages=[SYSTEM, asked("hi")])

    assert render_ollama(prompt) == render_ollama(chat)
    assert render_ollama(request(OLLAMA_GENERATE, prompt="hi")) == render_ollama(
        request(messages=[asked("hi")])
    )


def test_the_oldest_messages_go_first_and_the_system_stays() -> None:
    talk = [SYSTEM, asked("a" * 400), asked("b" * 40), asked("c" * 40)]

    fitted = fit_ollama(request(messages=talk), limit=60)

    assert isinstance(fitted, ProviderRequest)
    assert fitted.payload["messages"] == [SYSTEM, *talk[2:]]
    assert tokens(fitted) <= 60


def test_the_last_message_stays_however_long_it_is() -> None:
    talk = [asked("a"), asked("b" * 4_000)]

    fitted = fit_ollama(request(messages=talk), limit=60)

    assert isinstance(fitted, ProviderRequest)
    assert fitted.payload["messages"] == talk[1:]


def test_a_prompt_is_not_cut_by_messages() -> None:
    made = request(OLLAMA_GENERATE, prompt="b" * 4_000)

    assert fit_ollama(made, limit=60) == made


def test_without_truncation_what_does_not_fit_is_refused() -> None:
    made = request(messages=[asked("a" * 4_000)], truncate=False)

    refusal = fit_ollama(made, limit=60)

    assert isinstance(refusal, Refusal)
    assert (refusal.rule, refusal.status) == ("overflow", 400)


def test_the_requests_own_window_wins() -> None:
    made = request(messages=[asked("a" * 400)], options={"num_ctx": 4096})

    assert window_of(made, 60) == 4096
    assert fit_ollama(made, limit=60) == made
    assert window_of(request(messages=[]), 60) == 60


@pytest.mark.parametrize(("limit", "expected"), [(9, 9), (-1, None), (None, None)])
def test_what_the_model_is_asked(limit: int | None, expected: int | None) -> None:
    tool = {"function": {"name": "f", "parameters": {"type": "object"}}}
    made = request(
        messages=[
            SYSTEM,
            asked("q"),
            {"role": "assistant", "content": "a"},
            asked("r"),
        ],
        tools=[tool],
        options={"num_predict": limit},
        think=True,
    )

    ask = ask_ollama(made)

    assert (ask.line, ask.assistant_turns, ask.is_continuation) == ("r", 1, False)
    assert ask.tools == (("f", {"type": "object"}),)
    assert (ask.max_output_tokens, ask.wants_thinking) == (expected, True)
