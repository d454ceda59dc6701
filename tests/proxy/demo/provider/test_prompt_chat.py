from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import CHAT, ProviderRequest
from deuz_proxy.demo.provider.prompt_chat import ask_chat, render_chat, scope_of
from deuz_proxy.demo.provider.tokens import MEDIA_TOKENS

Json = dict[str, Any]
USER = {"role": "user", "content": "hi"}


def asked(*messages: Json, **members: Any) -> ProviderRequest:
    payload = {"model": "fake", "messages": list(messages), **members}
    return ProviderRequest(CHAT, "fake", False, payload, b"")


def prompt(*messages: Json, **members: Any) -> bytes:
    return b"".join(b.text for b in render_chat(asked(*messages, **members)))


def test_tools_come_first_whatever_the_order_in_the_body() -> None:
    rendered = prompt(USER, tools=[{"type": "function", "function": {"name": "t"}}])

    assert rendered.index(b'"t"') < rendered.index(b"hi")


def test_a_string_equals_one_part_and_breakpoints_are_not_rendered() -> None:
    part = {
        "type": "text",
        "text": "hi",
        "prompt_cache_breakpoint": {"mode": "explicit"},
    }

    assert prompt(USER) == prompt({"role": "user", "content": [part]})


def test_a_changed_argument_changes_the_prompt() -> None:
    def call(arguments: str) -> Json:
        entry = {"id": "a", "function": {"name": "t", "arguments": arguments}}
        return {"role": "assistant", "content": None, "tool_calls": [entry]}

    assert prompt(call('{"a":1}')) != prompt(call('{"a": 1}'))


@pytest.mark.parametrize(
    ("name", "is_scope"),
    [
        ("prompt_cache_key", True),
        ("response_format", True),
        ("reasoning_effort", True),
        ("temperature", False),
        ("stream", False),
    ],
)
def test_some_parameters_are_the_scope_of_the_cache(name: str, is_scope: bool) -> None:
    assert (scope_of({name: "x"}) != scope_of({})) is is_scope


def test_the_question_ignores_what_the_tools_said() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    result = {"role": "tool", "tool_call_id": "a", "content": "secret"}

    ask = ask_chat(asked(USER, call, result, max_completion_tokens=5, max_tokens=9))

    assert (ask.line, ask.is_continuation, ask.assistant_turns) == ("", True, 1)
    assert ask.max_output_tokens == 5


def test_a_named_choice_is_read() -> None:
    choice = {"type": "function", "function": {"name": "t"}}

    assert ask_chat(asked(USER, tool_choice=choice)).choice == "t"
    assert ask_chat(asked(USER, tool_choice="required")).choice == "required"
    assert ask_chat(asked(USER)).choice == "auto"


def test_parts_and_pictures_are_rendered_apart() -> None:
    words = {"type": "text", "text": "hi"}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    refusal = {"type": "refusal", "refusal": "no"}

    blocks = render_chat(asked({"role": "user", "content": [words, picture, refusal]}))

    assert [block.tokens for block in blocks[1:3]] == [1, MEDIA_TOKENS]
    assert b"refusal" in blocks[3].text


def test_the_question_may_stand_in_a_list_of_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    words = {"type": "text", "text": "hi"}

    assert ask_chat(asked({"role": "user", "content": [picture, words]})).line == "hi"
