import pytest

from deuz_compiler import NotLifted, lift
from deuz_testing.bodies import anthropic_body, assistant, tool_result, tool_use, user

TEXT = {"type": "text", "text": "more"}
PICTURE = {"type": "image", "source": {"type": "url", "url": "u"}}


def kinds(message: dict[str, object]) -> tuple[str, bool, bool]:
    turn = lift("anthropic", anthropic_body([message])).turns[0]
    return turn.role, turn.is_fresh, turn.opens_calls


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (user("hi"), ("user", True, False)),
        (user(""), ("user", False, False)),
        ({"role": "user", "content": [PICTURE]}, ("user", True, False)),
        (tool_result("t", "r"), ("user", False, False)),
        (
            {"role": "user", "content": [*tool_result("t", "r")["content"], TEXT]},
            ("user", False, False),
        ),
        (assistant("x"), ("assistant", False, False)),
        (tool_use("t"), ("assistant", False, True)),
        ({"role": "system", "content": "late"}, ("system", False, False)),
        ({"role": "user", "content": []}, ("user", False, False)),
    ],
)
def test_a_turn_is_told_by_role_and_blocks(
    message: dict[str, object], kind: tuple[str, bool, bool]
) -> None:
    assert kinds(message) == kind


def test_tools_and_system_are_found_wherever_they_stand() -> None:
    body = anthropic_body([user("hi")], system="S", tools=[{"name": "t"}])

    envelope = lift("anthropic", body)

    assert envelope.system is not None
    assert envelope.tools is not None
    assert body[envelope.system.start : envelope.system.end] == b'"S"'
    assert body[envelope.tools.start : envelope.tools.end] == b'[{"name":"t"}]'


def test_parameters_the_cache_depends_on_are_listed() -> None:
    body = anthropic_body(
        [user("hi")], thinking={"type": "enabled"}, temperature=1, metadata={}
    )

    assert [name for name, _ in lift("anthropic", body).params] == ["thinking"]


@pytest.mark.parametrize("thread", [None, {"type": "create"}, "thread_1", {"other": 1}])
def test_a_body_that_holds_its_whole_history_is_lifted(thread: object) -> None:
    assert lift("anthropic", anthropic_body([user("hi")], thread=thread)).turns


def test_a_body_that_continues_a_thread_of_the_provider_is_left_alone() -> None:
    body = anthropic_body([user("hi")], thread={"type": "continue", "id": "t"})

    with pytest.raises(NotLifted, match="server_state"):
        lift("anthropic", body)


def test_stream_and_output_limit_are_read() -> None:
    envelope = lift("anthropic", anthropic_body([user("hi")], stream=True))

    assert envelope.is_streamed
    assert envelope.max_output_tokens == 1024


@pytest.mark.parametrize(
    ("marker", "is_cached"), [({"type": "ephemeral"}, True), (None, False), (7, False)]
)
def test_automatic_caching_asks_to_keep_all_to_the_end(
    marker: object, is_cached: bool
) -> None:
    envelope = lift("anthropic", anthropic_body([user("hi")], cache_control=marker))

    assert envelope.is_cached_to_end is is_cached


def test_a_marker_of_a_turn_is_no_automatic_caching() -> None:
    marked = {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
    turn = {"role": "user", "content": [marked]}

    envelope = lift("anthropic", anthropic_body([turn]))

    assert not envelope.is_cached_to_end
