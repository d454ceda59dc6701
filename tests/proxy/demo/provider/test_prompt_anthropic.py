from typing import Any

import pytest

from deuz_proxy.demo.provider.exchange import ANTHROPIC, ProviderRequest
from deuz_proxy.demo.provider.prompt_anthropic import ask_anthropic, render_anthropic
from deuz_proxy.demo.provider.tokens import MEDIA_TOKENS, Block

Json = dict[str, Any]
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def asked(*messages: Json, **members: Any) -> ProviderRequest:
    payload = {"model": "fake", "max_tokens": 9, "messages": list(messages), **members}
    return ProviderRequest(ANTHROPIC, "fake", False, payload, b"")


def user(*content: Any) -> Json:
    return {"role": "user", "content": list(content)}


def text(words: str, marker: Json | None = None) -> Json:
    block = {"type": "text", "text": words}
    return {**block, "cache_control": marker} if marker else block


def seen(*messages: Json, **members: Any) -> list[tuple[bytes, bytes]]:
    """What the cache hashes, without the marks."""
    return [(b.text, b.salt) for b in render_anthropic(asked(*messages, **members))]


def marks(*messages: Json, **members: Any) -> list[int | None]:
    return [b.ttl_seconds for b in render_anthropic(asked(*messages, **members))]


def test_tools_come_first_then_system_then_messages() -> None:
    blocks = seen(user(text("U")), system="S", tools=[{"name": "T"}])

    assert [next(k for k in "TSU" if k.encode() in b[0]) for b in blocks] == [
        "T",
        "S",
        "U",
    ]


def test_a_string_equals_one_text_block_and_markers_are_not_rendered() -> None:
    plain = seen({"role": "user", "content": "hi"}, system="s", tools=[{"name": "t"}])
    listed = seen(
        user(text("hi", SHORT)),
        system=[text("s", LONG)],
        tools=[{"name": "t", "cache_control": SHORT}],
    )

    assert plain == listed


def test_neighbouring_messages_of_one_role_are_one_turn() -> None:
    assert seen(user(text("a")), user(text("b"))) == seen(user(text("a"), text("b")))


def test_a_result_in_string_form_equals_its_text_block() -> None:
    result = {"type": "tool_result", "tool_use_id": "a"}

    assert seen(user({**result, "content": "ok"})) == seen(
        user({**result, "content": [text("ok")]})
    )


def test_arguments_of_a_call_are_rendered_whole() -> None:
    call = {"type": "tool_use", "input": {"cache_control": SHORT}}

    assert b'"cache_control"' in seen(user(call))[0][0]


def test_marks_carry_their_lifetimes_in_order() -> None:
    nested = {"type": "tool_result", "content": [text("x", SHORT)]}

    assert marks(
        user(nested, text("u")), system=[text("s", LONG)], tools=[{"name": "t"}]
    ) == [None, 3600, 300, None]


def test_the_automatic_marker_stands_on_the_last_cacheable_block() -> None:
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    answer = {"role": "assistant", "content": [text("a"), thinking]}

    assert marks(user(text("u")), answer, cache_control=LONG) == [None, 3600, None]


@pytest.mark.parametrize(
    "parameter",
    [
        {"tool_choice": {"type": "any"}},
        {"thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "low"}},
    ],
)
def test_a_parameter_spoils_the_messages_only(parameter: Json) -> None:
    plain = seen(user(text("u")), system="s", tools=[{"name": "t"}])
    spoilt = seen(user(text("u")), system="s", tools=[{"name": "t"}], **parameter)

    assert spoilt[:2] == plain[:2]
    assert spoilt[2] != plain[2]


def test_speed_spoils_the_system_text_but_not_the_tools() -> None:
    plain = seen(user(text("u")), system="s", tools=[{"name": "t"}])
    fast = seen(user(text("u")), system="s", tools=[{"name": "t"}], speed="fast")

    assert fast[0] == plain[0]
    assert fast[1] != plain[1]


def test_a_parameter_at_its_default_is_as_good_as_absent() -> None:
    defaults = {
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "disabled"},
        "output_config": {"effort": "high"},
    }

    assert seen(user(text("u")), **defaults) == seen(user(text("u")))


def test_a_picture_costs_a_fixed_number_of_tokens() -> None:
    picture = {"type": "image", "source": {"type": "base64", "data": "A" * 50_000}}

    block: Block = render_anthropic(asked(user(text("u"), picture)))[-1]

    assert block.tokens == MEDIA_TOKENS


def test_the_question_is_the_first_fresh_text_behind_the_last_answer() -> None:
    answer = {"role": "assistant", "content": "a"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "ok"}

    fresh = ask_anthropic(
        asked(user(text("old")), answer, user(text("new"), text("x")))
    )
    continued = ask_anthropic(asked(user(text("old")), answer, user(result)))

    assert (fresh.line, fresh.assistant_turns, fresh.is_continuation) == (
        "new",
        1,
        False,
    )
    assert (continued.line, continued.is_continuation) == ("", True)


def test_tools_choice_and_schema_are_read() -> None:
    schema = {"type": "object"}
    ask = ask_anthropic(
        asked(
            user(text("u")),
            tools=[{"name": "t", "input_schema": schema}],
            tool_choice={"type": "tool", "name": "t"},
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )
    )

    assert (ask.tools, ask.choice, ask.schema) == ((("t", schema),), "t", schema)
