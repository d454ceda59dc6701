from dataclasses import replace
from typing import Any

import pytest

from deuz_proxy.demo.provider.answers import (
    compose_answer,
    count_output,
    count_reasoning,
    digest_of,
    fit_reply,
    stop_of,
)
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    Answer,
    Ask,
    ProviderRequest,
    Refusal,
    Reply,
    Text,
    Thinking,
    ToolCall,
)

TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("first", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ("second", {}),
)
ASK = Ask(line="hello", assistant_turns=0, is_continuation=False, tools=TOOLS)


def asked(model: str = "fake", body: bytes = b"") -> ProviderRequest:
    return ProviderRequest(ANTHROPIC, model, False, {}, body)


def reply(model: str = "fake", ask: Ask = ASK, body: bytes = b"") -> Reply:
    answer: Answer = compose_answer(asked(model, body), ask)
    assert isinstance(answer, Reply)
    return answer


def test_the_same_question_gets_the_same_answer() -> None:
    assert reply() == reply()


@pytest.mark.parametrize(
    "other",
    [replace(ASK, line="bye"), replace(ASK, assistant_turns=1)],
)
def test_another_question_gets_another_answer(other: Ask) -> None:
    assert reply(ask=other) != reply()


def test_context_behind_the_first_line_changes_nothing_and_is_not_repeated() -> None:
    longer = replace(ASK, line="hello\n<context>secret</context>")

    assert reply(ask=longer) == reply()


def test_a_tools_model_calls_the_first_tool_with_arguments() -> None:
    (call,) = reply("fake-tools").parts

    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("first", {"city": "example city"})


def test_it_calls_several_at_once_with_ids_of_their_own() -> None:
    calls = reply("fake-tools-3").parts

    assert len({call.call_id for call in calls if isinstance(call, ToolCall)}) == 3


def test_a_result_is_answered_with_text() -> None:
    (part,) = reply("fake-tools", replace(ASK, is_continuation=True)).parts

    assert isinstance(part, Text)


def test_call_ids_that_the_history_used_are_not_used_again() -> None:
    (call,) = reply("fake-tools").parts
    assert isinstance(call, ToolCall)

    (other,) = reply("fake-tools", body=call.call_id.encode()).parts

    assert isinstance(other, ToolCall)
    assert other.call_id != call.call_id


@pytest.mark.parametrize(
    ("choice", "name"), [("required", "first"), ("any", "first"), ("second", "second")]
)
def test_a_demanded_call_is_made_by_any_model(choice: str, name: str) -> None:
    (call,) = reply(ask=replace(ASK, choice=choice)).parts

    assert isinstance(call, ToolCall)
    assert call.name == name


def test_no_call_is_made_where_the_request_forbids_it() -> None:
    (part,) = reply("fake-tools", replace(ASK, choice="none")).parts

    assert isinstance(part, Text)


def test_a_schema_is_answered_with_a_specimen() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}

    (part,) = reply(ask=replace(ASK, schema=schema)).parts

    assert part == Text('{"n":1}')


def test_words_in_the_models_name_choose_its_behaviour() -> None:
    assert isinstance(reply("fake-thinking").parts[0], Thinking)
    assert reply("fake-blank").parts == (Text(""),)
    assert stop_of(reply("fake-length")) == "length"
    assert reply("fake-slow").pause_seconds > 0
    assert reply("fake-cut").cut_after is not None
    failure = compose_answer(asked("fake-error-529"), ASK)
    assert isinstance(failure, Refusal)
    assert failure.status == 529


def test_a_reply_is_cut_to_the_output_limit() -> None:
    full = Reply((Thinking("abcd"), Text("abcdefghij")))

    fitted = fit_reply(full, limit=3, room=100)

    assert fitted.parts == (Thinking("abcd"), Text("abcdefgh"))
    assert (count_output(fitted), count_reasoning(fitted)) == (3, 1)
    assert stop_of(fitted) == "length"


def test_a_full_window_stops_an_answer_for_its_own_reason() -> None:
    fitted = fit_reply(Reply((Text("abcdefghij"),)), limit=100, room=1)

    assert (fitted.parts, stop_of(fitted)) == ((Text("abcd"),), "window")


def test_a_reply_that_fits_is_left_alone() -> None:
    full = Reply((Text("abcd"),))

    assert fit_reply(full, limit=None, room=1) is full


def test_a_call_stays_whole() -> None:
    call = Reply((ToolCall("name", {"a": "b" * 50}),))

    assert fit_reply(call, limit=1, room=1) is call
    assert stop_of(call) == "tool"


def test_the_digest_has_a_fixed_length() -> None:
    assert len(digest_of(asked(), ASK)) == len(digest_of(asked(), Ask("", 9, True, ())))
