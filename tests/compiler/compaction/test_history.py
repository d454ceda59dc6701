from deuz_compiler.compaction.history import view_turns
from deuz_compiler.compaction.summary import render_summary
from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.parts import Part
from deuz_compiler.wires.requests import lift
from deuz_testing.histories import Message, body_of, history_of, tool_round


def refuse(raw: bytes) -> tuple[Part, ...]:
    raise NotLifted("unknown_shape")


def test_turn_that_cannot_be_read_is_opaque() -> None:
    body = body_of([{"role": "user", "content": "q"}])

    (view,) = view_turns(lift("anthropic", body).turns, body, refuse)

    assert view.is_opaque
    assert view.raw == b'{"role": "user", "content": "q"}'


def test_answers_to_calls_are_known_on_both_wires() -> None:
    for wire in ("anthropic", "openai_chat"):
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

    assert history_of("anthropic", messages)[0].is_sealed
