from typing import Any

from deuz_proxy.demo.provider.exchange import RESPONSES, ProviderRequest
from deuz_proxy.demo.provider.prompt_responses import (
    ask_responses,
    items_of,
    render_responses,
)

Json = dict[str, Any]
USER = {"type": "message", "role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "ok"}


def asked(source: Any, history: tuple[Json, ...] = (), **rest: Any) -> ProviderRequest:
    payload = {"model": "fake", "input": source, **rest}
    return ProviderRequest(RESPONSES, "fake", False, payload, b"", history=history)


def prompt(source: Any, history: tuple[Json, ...] = (), **rest: Any) -> bytes:
    return b"".join(b.text for b in render_responses(asked(source, history, **rest)))


def test_a_string_equals_one_user_message() -> None:
    assert prompt("hi") == prompt([USER])
    assert items_of("hi") == (USER,)


def test_ids_and_states_of_items_are_not_rendered() -> None:
    dressed = [{**USER, "id": "msg_1"}, {**CALL, "id": "fc_1", "status": "completed"}]

    assert prompt([USER, CALL]) == prompt(dressed)


def test_a_call_id_is_rendered() -> None:
    assert prompt([CALL]) != prompt([{**CALL, "call_id": "d"}])


def test_held_items_stand_before_the_input() -> None:
    assert prompt([OUTPUT], history=(USER, CALL)) == prompt([USER, CALL, OUTPUT])


def test_instructions_come_before_the_items() -> None:
    rendered = prompt("hi", instructions="be brief")

    assert rendered.index(b"be brief") < rendered.index(b"hi")


def test_several_items_of_the_model_are_one_turn() -> None:
    thought = {"type": "reasoning", "summary": []}

    ask = ask_responses(asked([USER, thought, CALL, OUTPUT]))

    assert (ask.assistant_turns, ask.is_continuation, ask.line) == (1, True, "")


def test_choice_schema_and_reasoning_are_read() -> None:
    schema = {"type": "object"}
    ask = ask_responses(
        asked(
            "hi\nthere",
            text={"format": {"type": "json_schema", "schema": schema}},
            tool_choice={"type": "function", "name": "t"},
            tools=[{"type": "function", "name": "t", "parameters": schema}],
            reasoning={"summary": "auto"},
        )
    )

    assert (ask.line, ask.schema, ask.choice) == ("hi\nthere", schema, "t")
    assert ask.tools == (("t", schema),)
    assert ask.wants_thinking
