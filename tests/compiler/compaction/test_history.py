import pytest

from deuz_compiler.compaction.history import view_turns
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.parts import Part
from deuz_compiler.wires.requests import lift
from deuz_compiler.wires.turns import Turn
from deuz_testing.histories import (
    RESPONSES,
    WIRES,
    Message,
    body_of,
    history_of,
    tool_round,
)


def refuse(raw: bytes) -> tuple[Part, ...]:
    raise NotLifted("unknown_shape")


def test_turn_that_cannot_be_read_is_opaque() -> None:
    body = body_of([{"role": "user", "content": "q"}])

    (view,) = view_turns(lift("anthropic", body).turns, body, refuse)

    assert view.is_opaque
    assert view.raw == b'{"role": "user", "content": "q"}'


def test_answers_to_calls_are_known_on_every_wire() -> None:
    for wire in WIRES:
        history = history_of(wire, tool_round(wire, ["c"], "r", ""))

        assert [view.has_results for view in history] == [False, True]


def test_summary_is_a_lone_marked_user_text() -> None:
    text = render_summary("notes")
    pieces = [{"type": "text", "text": text}, {"type": "text", "text": "more"}]
    messages: list[Message] = [
        {"role": "user", "content": text},
        {"role": "user", "content": pieces[:1]},
        {"role": "user", "content": pieces},
        {"role": "assistant", "content": text},
        {"role": "user", "content": f"he said: {text}"},
    ]

    found = [view.summary for view in history_of("anthropic", messages)]

    assert found == ["notes", "notes", None, None, None]


def test_providers_own_compaction_is_sealed() -> None:
    block = {"type": "compaction", "content": "sealed"}
    messages = [{"role": "assistant", "content": [block]}]
    items = [{"type": "compaction", "encrypted_content": "sealed"}]

    assert history_of("anthropic", messages)[0].is_sealed
    assert history_of(RESPONSES, items)[0].is_sealed
    assert not history_of("anthropic", [{"role": "user", "content": "q"}])[0].is_sealed


@pytest.mark.parametrize(
    ("role", "is_fresh", "may_answer"),
    [
        ("user", False, True),
        ("user", True, False),
        ("assistant", False, False),
        ("tool", False, True),
    ],
)
def test_turn_that_cannot_be_read_may_answer_a_call(
    role: str, is_fresh: bool, may_answer: bool
) -> None:
    turn = Turn(0, 2, role, is_fresh, opens_calls=False, tokens=1, digest=b"")

    (view,) = view_turns([turn], b"{}", refuse)

    assert view.has_results is may_answer


def test_reasoning_alone_belongs_to_the_turn_behind_it() -> None:
    history = history_of(RESPONSES, tool_round(RESPONSES, ["c"], "r", "hm"))

    assert [view.is_only_reasoning for view in history] == [True, False, False]
    assert [view.has_calls for view in history] == [False, True, False]
