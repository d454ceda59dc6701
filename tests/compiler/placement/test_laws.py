import json

import pytest

from deuz_compiler import NotLifted, lift, lower, place_for_context, place_for_tail
from deuz_compiler.placement.laws import PART, TURN, append_edits, fold_edits
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    chat_call,
    chat_result,
    tool_result,
    tool_use,
    user,
)

LATE = {"role": "system", "content": "late"}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([user("a")], 0),
        ([user("a"), assistant("b"), user("c")], 2),
        ([user("a"), assistant("prefill")], None),
        ([user("a"), tool_use("t"), tool_result("t", "r")], None),
        ([user("a"), LATE], 0),
        ([user("a"), tool_use("t"), tool_result("t", "r"), LATE], None),
        ([], None),
    ],
)
def test_context_may_stand_behind_a_fresh_newest_turn_only(
    messages: list[dict[str, object]], place: int | None
) -> None:
    assert place_for_context(lift("anthropic", anthropic_body(messages))) == place


def test_on_the_chat_wire_a_tools_answer_is_no_place() -> None:
    body = chat_body([user("a"), chat_call("c"), chat_result("c", "r")])

    assert place_for_context(lift("openai_chat", body)) is None


def test_leading_system_turns_alone_are_no_place() -> None:
    body = chat_body([{"role": "system", "content": "s"}])

    assert place_for_context(lift("openai_chat", body)) is None


@pytest.mark.parametrize(
    ("form", "content", "expected"),
    [
        (TURN, "hi", [user("hi"), user("B")]),
        (PART, "hi", [{"role": "user", "content": [text("hi"), text("B")]}]),
        (
            PART,
            [text("hi")],
            [
                {
                    "role": "user",
                    "content": [text("hi"), text("B")],
                }
            ],
        ),
        (PART, [], [{"role": "user", "content": [text("B")]}]),
    ],
)
def test_a_block_is_an_own_turn_or_a_part(
    form: str, content: object, expected: list[object]
) -> None:
    body = anthropic_body([{"role": "user", "content": content}])
    envelope = lift("anthropic", body)

    out = lower(body, append_edits(envelope, 0, **{f"{form}s": [b"B"]}))

    assert json.loads(out)["messages"] == expected


@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "user", "content": 1}])
def test_a_part_needs_content_it_can_join(message: dict[str, object]) -> None:
    envelope = lift("openai_chat", chat_body([message]))

    with pytest.raises(NotLifted):
        append_edits(envelope, 0, parts=[b"B"])


@pytest.mark.parametrize(
    ("form", "first", "expected"),
    [
        (TURN, 1, [user("a"), user("S"), user("c")]),
        (PART, 1, [user("a\n\nS"), user("c")]),
        (PART, 0, [user("S"), user("c")]),
    ],
)
def test_a_fold_replaces_its_run_or_joins_the_user_turn_before(
    form: str, first: int, expected: list[object]
) -> None:
    body = chat_body([user("a"), assistant("b"), user("c")])
    envelope = lift("openai_chat", body)

    out = lower(body, fold_edits(envelope, first, 1, texts=[b"S"], form=form))

    assert json.loads(out)["messages"] == expected


def test_on_the_chat_wire_a_part_is_spliced_into_a_string() -> None:
    body = chat_body([user("hi")])
    envelope = lift("openai_chat", body)

    out = lower(body, append_edits(envelope, 0, parts=[b"B", b"C"]))

    assert json.loads(out)["messages"] == [user("hi\n\nB\n\nC")]


def test_on_the_anthropic_wire_a_turn_gets_the_same_parts_as_string_and_as_list() -> (
    None
):
    written = b'"caf\\u00e9 \\/ "'
    listed = b'[{"type":"text","text":%b}]' % written
    bodies = [
        b'{"max_tokens":1,"messages":[{"content":%b,"role":"user"}],"model":"m"}'
        % content
        for content in (written, listed)
    ]

    out = [
        lower(
            body,
            append_edits(lift("anthropic", body), 0, parts=[b"B"]),
        )
        for body in bodies
    ]

    assert out[0] == out[1]


def test_a_joining_summary_stands_behind_the_blocks_of_the_turn_it_joins() -> None:
    body = anthropic_body([user("a"), assistant("b"), user("c")])
    envelope = lift("anthropic", body)

    edits = fold_edits(envelope, 1, 1, texts=[b"B", b"S"], form=PART)

    assert json.loads(lower(body, edits))["messages"] == [
        {"role": "user", "content": [text("a"), text("B"), text("S")]},
        user("c"),
    ]


@pytest.mark.parametrize(
    "part",
    [
        text("hi"),
        {"text": "hi", "type": "text", "prompt_cache_breakpoint": {"mode": "explicit"}},
    ],
)
def test_on_the_chat_wire_a_list_of_one_text_is_spliced_like_its_string(
    part: dict[str, object],
) -> None:
    body = chat_body([{"role": "user", "content": [part]}])
    envelope = lift("openai_chat", body)

    out = lower(body, append_edits(envelope, 0, parts=[b"B"]))

    (message,) = json.loads(out)["messages"]
    assert message["content"] == [{**part, "text": "hi\n\nB"}]


@pytest.mark.parametrize(
    "parts",
    [
        [text("hi"), text("there")],
        [{**text("hi"), "annotations": []}],
        [{"type": "image_url", "image_url": {"url": "u"}}],
    ],
)
def test_on_the_chat_wire_any_other_list_gets_a_part(
    parts: list[dict[str, object]],
) -> None:
    body = chat_body([{"role": "user", "content": parts}])
    envelope = lift("openai_chat", body)

    out = lower(body, append_edits(envelope, 0, parts=[b"B"]))

    assert json.loads(out)["messages"][0]["content"] == [*parts, text("B")]


TOOLS = [user("a"), tool_use("t"), tool_result("t", "r")]
SERVER_CALL = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "t", "name": "x", "input": {}},
    ],
}


@pytest.mark.parametrize("form", [TURN, PART])
@pytest.mark.parametrize(
    ("messages", "members", "place"),
    [
        ([user("a")], {}, 0),
        ([user("a"), assistant("b"), user("c")], {}, 2),
        ([user("a"), assistant("prefill")], {}, None),
        ([user("a"), tool_use("t"), user("no result")], {}, None),
        ([], {}, None),
        (TOOLS, {}, 2),
        ([*TOOLS, LATE], {}, 2),
        (TOOLS, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
        (TOOLS, {"thinking": {"type": "disabled"}}, 2),
        ([user("a")], {"thinking": {"type": "enabled", "budget_tokens": 1024}}, 0),
        ([user("a"), SERVER_CALL, tool_result("t", "r")], {}, None),
    ],
)
def test_working_memory_ends_a_request_where_nothing_is_lost_by_it(
    messages: list[dict[str, object]],
    members: dict[str, object],
    place: int | None,
    form: str,
) -> None:
    envelope = lift("anthropic", anthropic_body(messages, **members))

    assert place_for_tail(envelope, form) == place


@pytest.mark.parametrize(("form", "place"), [(TURN, 2), (PART, None)])
def test_beside_a_tools_own_turn_there_is_no_room_for_a_part(
    form: str, place: int | None
) -> None:
    body = chat_body([user("a"), chat_call("c"), chat_result("c", "r")])

    assert place_for_tail(lift("openai_chat", body), form) == place
