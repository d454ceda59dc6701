import json
from typing import Any

import pytest

from deuz_compiler import NotLifted, ask_once, lift, place_for_context
from deuz_compiler.wires.openai_responses.request import RULES
from deuz_testing.bodies import compact


def body(history: Any, **members: Any) -> bytes:
    return compact({"model": "gpt-5.5", "input": history, **members})


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "r"}


@pytest.mark.parametrize(
    ("item", "role", "is_fresh", "opens_calls"),
    [
        (user("a"), "user", True, False),
        (user(""), "user", False, False),
        ({"role": "user", "content": []}, "user", False, False),
        ({"role": "user", "content": [{"type": "input_file"}]}, "user", True, False),
        ({"type": None, "role": "user", "content": "a"}, "user", True, False),
        ({"role": "developer", "content": "a"}, "system", False, False),
        ({"role": "assistant", "content": "a"}, "assistant", False, False),
        ({**CALL, "role": None}, "assistant", False, True),
        ({"type": "custom_tool_call", "call_id": "c"}, "assistant", False, True),
        ({"type": "mcp_approval_request", "id": "m"}, "assistant", False, True),
        ({"type": "web_search_call", "id": "w"}, "assistant", False, False),
        ({"type": "mcp_call", "id": "m"}, "assistant", False, False),
        (OUTPUT, "tool", False, False),
        ({"type": "item_reference", "id": "x"}, "assistant", False, False),
        ({"type": "compaction", "encrypted_content": "s"}, "assistant", False, False),
    ],
)
def test_an_item_is_told_by_its_kind(
    item: dict[str, Any], role: str, is_fresh: bool, opens_calls: bool
) -> None:
    (turn,) = lift(RULES.wire, body([item])).turns

    assert (turn.role, turn.is_fresh, turn.opens_calls) == (role, is_fresh, opens_calls)


@pytest.mark.parametrize(
    ("members", "names"),
    [
        ({}, []),
        ({"parallel_tool_calls": True, "text": {"format": {"type": "text"}}}, []),
        ({"reasoning": None, "prompt_cache_key": None}, []),
        (
            {"reasoning": {"effort": "low"}, "parallel_tool_calls": False},
            ["parallel_tool_calls", "reasoning"],
        ),
        ({"text": {"verbosity": "low"}, "store": False, "include": []}, ["text"]),
        ({"context_management": [{"type": "compaction"}]}, ["context_management"]),
        ({"prompt": {"id": "pmpt_1", "version": "2"}}, ["prompt"]),
        ({"tool_choice": "none", "truncation": "auto"}, []),
    ],
)
def test_parameters_are_those_that_the_cache_depends_on(
    members: dict[str, Any], names: list[str]
) -> None:
    envelope = lift(RULES.wire, body("hi", **members))

    assert [name for name, _ in envelope.params] == names


def test_limit_stream_and_instructions_are_read() -> None:
    envelope = lift(
        RULES.wire, body("hi", max_output_tokens=7, stream=True, instructions="be")
    )

    assert (envelope.max_output_tokens, envelope.is_streamed) == (7, True)
    assert envelope.system is not None
    assert envelope.body[envelope.system.start : envelope.system.end] == b'"be"'


@pytest.mark.parametrize("held", [None, ""])
def test_a_state_that_is_none_is_none(held: str | None) -> None:
    envelope = lift(RULES.wire, body("hi", previous_response_id=held))

    assert len(envelope.turns) == 1


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_a_history_that_the_provider_holds_is_not_ours_to_add_to(name: str) -> None:
    inputs: list[dict[str, Any]] = [{"input": "hi"}, {"input": []}, {}]
    for members in inputs:
        held = compact({"model": "m", **members, name: "x_1"})

        with pytest.raises(NotLifted, match="server_state"):
            lift(RULES.wire, held)


@pytest.mark.parametrize("history", ["", []])
def test_an_empty_input_is_no_place(history: Any) -> None:
    assert place_for_context(lift(RULES.wire, body(history))) is None


def test_references_stand_where_they_stand_and_hide_no_question() -> None:
    reference = {"type": "item_reference", "id": "msg_1"}

    assert place_for_context(lift(RULES.wire, body([reference, user("a")]))) == 1
    assert place_for_context(lift(RULES.wire, body([user("a"), reference]))) is None


def test_our_own_question_is_not_kept_by_the_provider() -> None:
    asker = lift(RULES.wire, body("hi"))

    asked = json.loads(ask_once(asker, model="m", text="why?", output_tokens=9))

    assert asked == {"model": "m", "input": "why?", "store": False}
