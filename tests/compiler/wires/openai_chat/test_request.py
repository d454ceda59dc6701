import pytest

from deuz_compiler import lift
from deuz_testing.bodies import assistant, chat_body, chat_call, chat_result, user


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (user("hi"), ("user", True, False)),
        ({"role": "user", "content": None}, ("user", False, False)),
        ({"role": "user", "content": ""}, ("user", False, False)),
        (chat_call("c"), ("assistant", False, True)),
        ({**assistant("x"), "tool_calls": []}, ("assistant", False, False)),
        (chat_result("c", "r"), ("tool", False, False)),
        ({"role": "function", "name": "f", "content": "r"}, ("tool", False, False)),
        ({"role": "developer", "content": "d"}, ("system", False, False)),
    ],
)
def test_a_turn_is_told_by_role_and_calls(
    message: dict[str, object], kind: tuple[str, bool, bool]
) -> None:
    turn = lift("openai_chat", chat_body([message])).turns[0]

    assert (turn.role, turn.is_fresh, turn.opens_calls) == kind


def test_leading_system_and_developer_messages_are_counted_apart() -> None:
    system = {"role": "system", "content": "s"}
    developer = {"role": "developer", "content": "d"}

    envelope = lift("openai_chat", chat_body([system, developer, user("a"), system]))

    assert envelope.lead == 2
    assert envelope.system is None


def test_the_newer_output_limit_wins() -> None:
    body = chat_body([user("a")], max_tokens=5, max_completion_tokens=9)

    assert lift("openai_chat", body).max_output_tokens == 9


@pytest.mark.parametrize("limit", [None, 0, -1, True, "9"])
def test_an_output_limit_that_is_none_is_not_read(limit: object) -> None:
    body = chat_body([user("a")], max_tokens=limit)

    assert lift("openai_chat", body).max_output_tokens is None
