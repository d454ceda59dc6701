import pytest

from deuz_compiler import lift, plain_prefix
from deuz_compiler.causes import CAUSES, system_cause, tools_cause, turn_cause
from deuz_compiler.prefix import Prefix
from deuz_testing.bodies import anthropic_body, assistant, compact, user


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        (b'"It is 2026-11-30 10:00."', b'"It is 2026-11-30 10:01."', "system_time"),
        (b'"Today is Monday."', b'"Today is Tuesday."', "system_time"),
        (b'"now=1790000000"', b'"now=1790000999"', "system_time"),
        (b'"id 3f2a9c1be0d4 ok"', b'"id 77aa01c2ff31 ok"', "system_nonce"),
        (b'"Be kind."', b'"Be brief and kind."', "system_edited"),
        (b"", b'"new"', "system_added"),
        (b'"old"', b"", "system_removed"),
        (None, b'"new"', "system_edited"),
    ],
)
def test_a_changed_system_text_is_told_by_what_changed(
    old: bytes | None, new: bytes, cause: str
) -> None:
    assert system_cause(old, new) == cause


A, B, C = ({"name": n, "description": n * 3} for n in "abc")
CHAT = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("old", "new", "cause", "index"),
    [
        ([A, B], [A, B, C], "tool_added", 2),
        ([A, B, C], [A, C], "tool_removed", 1),
        ([A, B], [B, A], "tools_reordered", 0),
        ([A, B], [A, {**B, "description": "x"}], "tool_edited", 1),
        ([], [CHAT], "tool_added", 0),
        ([1, 2], [1, 3], "tool_edited", 1),
    ],
)
def test_changed_tools_are_told_by_their_names(
    old: list[object], new: list[object], cause: str, index: int
) -> None:
    assert tools_cause(compact(old), compact(new)) == (cause, index)


def test_tools_whose_old_text_is_gone_are_only_said_to_differ() -> None:
    assert tools_cause(None, b"[]") == ("tool_edited", None)


def test_tools_that_appear_where_none_were_are_added() -> None:
    assert tools_cause(b"", compact([A])) == ("tool_added", 0)


def prefix(*texts: str) -> Prefix:
    turns = [user(t) if i % 2 == 0 else assistant(t) for i, t in enumerate(texts)]
    envelope = lift("anthropic", anthropic_body(turns))
    return plain_prefix(envelope)


@pytest.mark.parametrize(
    ("new", "cause"),
    [
        (("a", "X", "c", "d"), "turn_edited"),
        (("a", "d"), "turns_dropped"),
        (("a", "x", "y", "b", "c", "d"), "turn_inserted"),
    ],
)
def test_a_changed_history_is_told_by_what_stands_where(
    new: tuple[str, ...], cause: str
) -> None:
    assert turn_cause(prefix("a", "b", "c", "d"), prefix(*new), 1) == cause


def test_every_cause_is_listed_once() -> None:
    assert len(CAUSES) == len(set(CAUSES))


def test_a_tool_whose_marker_moved_on_is_not_the_one_that_changed() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}

    told = tools_cause(compact([A, {**B, **mark}]), compact([A, B, {**C, **mark}]))

    assert told == ("tool_added", 2)


def test_a_history_that_only_ends_earlier_has_lost_turns() -> None:
    def prefix_until(count: int) -> Prefix:
        envelope = lift("anthropic", anthropic_body([user("a"), user("b")][:count]))
        return plain_prefix(envelope)

    assert turn_cause(prefix_until(2), prefix_until(1), 1) == "turns_dropped"


@pytest.mark.parametrize("marker", ["", '"cache_control":1,'])
def test_tools_nested_to_where_nothing_can_be_read_still_have_a_cause(
    marker: str,
) -> None:
    def tools(word: str, deep: int) -> bytes:
        inner = "[" * deep + f'"{word}"' + "]" * deep
        return f'[{{"name":"look",{marker}"schema":{inner}}}]'.encode()

    # Somewhere here the interpreter's own depth ends, wherever this test stands.
    for deep in range(800, 1100):
        assert tools_cause(tools("a", deep), tools("b", deep))[0] == "tool_edited"
