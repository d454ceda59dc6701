from typing import Any

import pytest

from deuz_proxy.demo.provider.rules_anthropic_markers import check_markers

Json = dict[str, Any]
SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


def text(marker: Json | None = None, words: str = "x") -> Json:
    return {"type": "text", "text": words, "cache_control": marker}


def payload(*blocks: Json, **members: Any) -> Json:
    return {"messages": [{"role": "user", "content": list(blocks)}], **members}


def rule_of(body: Json) -> str | None:
    refusal = check_markers(body)
    return refusal.rule if refusal else None


def test_four_markers_are_accepted_wherever_they_are() -> None:
    inner = {"type": "tool_result", "content": [text(SHORT)]}
    body = payload(inner, text(SHORT), system=[text(SHORT)], tools=[text(SHORT)])

    assert rule_of(body) is None


@pytest.mark.parametrize("where", ["system", "tools"])
def test_the_fifth_marker_is_refused(where: str) -> None:
    refusal = check_markers(payload(*[text(SHORT)] * 4, **{where: [text(SHORT)]}))

    assert refusal is not None
    assert refusal.message == (
        "A maximum of 4 blocks with cache_control may be provided. Found 5."
    )


def test_a_marker_inside_a_tool_result_counts() -> None:
    inner = {"type": "tool_result", "content": [text(SHORT)]}

    assert rule_of(payload(inner, *[text(SHORT)] * 4)) == "too_many_markers"


def test_the_automatic_marker_takes_a_place() -> None:
    marked = [text(SHORT)] * 4

    assert rule_of(payload(*marked[1:], text(), cache_control=SHORT)) is None
    assert rule_of(payload(*marked, text(), cache_control=SHORT)) == "too_many_markers"


def test_the_automatic_marker_may_meet_an_equal_one_only() -> None:
    assert rule_of(payload(*[text(SHORT)] * 4, cache_control=SHORT)) is None
    assert rule_of(payload(text(SHORT), cache_control=LONG)) == "marker_conflict"


def test_a_marker_on_empty_text_is_refused() -> None:
    refusal = check_markers(payload(text(SHORT, words="")))

    assert refusal is not None
    assert refusal.message == (
        "messages.0.content.0: cache_control cannot be set for empty text blocks"
    )


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
def test_a_marker_on_thinking_is_refused(kind: str) -> None:
    block = {"type": kind, "cache_control": SHORT}

    assert rule_of(payload(block)) == "marker_on_thinking"


@pytest.mark.parametrize(
    ("marker", "rule"),
    [
        ({"type": "persistent"}, "marker_type"),
        ("ephemeral", "marker_type"),
        ({"type": "ephemeral", "ttl": "2h"}, "marker_lifetime"),
    ],
)
def test_a_marker_of_another_kind_is_refused(marker: Any, rule: str) -> None:
    assert rule_of(payload(text(marker))) == rule


@pytest.mark.parametrize(
    ("system", "first", "second", "rule"),
    [
        (LONG, LONG, SHORT, None),
        (LONG, SHORT, SHORT, None),
        (SHORT, SHORT, LONG, "marker_order"),
        (SHORT, LONG, None, "marker_order"),
        (None, SHORT, LONG, "marker_order"),
    ],
)
def test_a_longer_lifetime_never_follows_a_shorter_one(
    system: Json, first: Json, second: Json, rule: str | None
) -> None:
    body = payload(text(first), text(second), system=[text(system)])

    assert rule_of(body) == rule


def test_a_tool_argument_that_looks_like_a_marker_is_none() -> None:
    call = {"type": "tool_use", "input": {"cache_control": SHORT}}

    assert rule_of(payload(*[call] * 5)) is None


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ({"system": [text(SHORT)], "messages": []}, None),
        ({"messages": [{"content": "plain"}]}, "too_many_markers"),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "thinking"}]}]},
            None,
        ),
    ],
)
def test_the_automatic_marker_finds_its_block_in_any_form(
    body: Json, rule: str | None
) -> None:
    before = {"tools": [text(SHORT)] * 3, "system": [text(SHORT)]}

    assert rule_of({**before, "cache_control": SHORT, **body}) == rule
