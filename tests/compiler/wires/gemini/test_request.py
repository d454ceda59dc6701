from typing import Any

import pytest

from deuz_compiler import (
    Append,
    NotLifted,
    PathFacts,
    lift,
    lower,
    part_span,
    place_for_context,
    project,
)
from deuz_compiler.placement.laws import place_for_tail
from deuz_compiler.prefix import first_difference, plain_prefix
from deuz_testing.bodies import compact

ASKED = {"role": "user", "parts": [{"text": "why?"}]}
CALLED: dict[str, Any] = {
    "role": "model",
    "parts": [{"functionCall": {"name": "f", "args": {}}}],
}
RETURNED = {"functionResponse": {"name": "f", "response": {"output": "r"}}}
PATH = PathFacts("gemini-3-pro", is_streamed=True)


def body(*turns: Any, **members: Any) -> bytes:
    return compact({"contents": list(turns), **members})


def test_model_and_stream_are_told_by_the_path() -> None:
    lifted = lift("gemini", body(ASKED), path=PATH)

    assert (lifted.model, lifted.is_streamed) == ("gemini-3-pro", True)


def test_the_path_wins_over_a_model_in_the_body() -> None:
    lifted = lift("gemini", body(ASKED, model="models/other"), path=PATH)

    assert lifted.model == "gemini-3-pro"
    assert not lift("gemini", body(ASKED)).model


@pytest.mark.parametrize(
    "members",
    [
        {
            "systemInstruction": {"parts": [{"text": "s"}]},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"maxOutputTokens": 77},
            "cachedContent": "cachedContents/1",
        },
        {
            "system_instruction": {"parts": [{"text": "s"}]},
            "tool_config": {"functionCallingConfig": {"mode": "ANY"}},
            "generation_config": {"max_output_tokens": 77},
            "cached_content": "cachedContents/1",
        },
    ],
)
def test_members_are_found_in_both_spellings(members: dict[str, Any]) -> None:
    raw = body(ASKED, **members)

    lifted = lift("gemini", raw, path=PATH)

    assert lifted.system is not None
    assert raw[lifted.system.start : lifted.system.end] == b'{"parts":[{"text":"s"}]}'
    assert [name for name, _ in lifted.params] == ["cachedContent", "toolConfig"]
    assert lifted.max_output_tokens == 77
    assert lifted.is_partial


def test_a_name_in_two_spellings_is_a_key_that_stands_twice() -> None:
    raw = body(ASKED, systemInstruction={}, system_instruction={})

    with pytest.raises(NotLifted, match="duplicate_key"):
        lift("gemini", raw, path=PATH)


def test_calling_functions_as_usual_is_no_parameter() -> None:
    usual = {"functionCallingConfig": {"mode": "AUTO"}}

    assert lift("gemini", body(ASKED, toolConfig=usual), path=PATH).params == ()
    assert not lift("gemini", body(ASKED), path=PATH).is_partial


def test_another_temperature_is_no_break_and_another_cached_content_is() -> None:
    def prefix(**members: Any) -> Any:
        lifted = lift("gemini", body(ASKED, **members), path=PATH)
        return plain_prefix(lifted)

    plain = prefix(generationConfig={"temperature": 0})

    assert first_difference(plain, prefix(generationConfig={"temperature": 1})) is None
    cached = first_difference(plain, prefix(cachedContent="cachedContents/1"))
    assert cached is not None
    assert cached.segment == "params"


@pytest.mark.parametrize(
    ("turn", "kind"),
    [
        (ASKED, ("user", True, False)),
        ({"parts": {"text": "why?"}}, ("user", True, False)),
        ({"parts": [{"text": ""}]}, ("user", False, False)),
        ({"parts": [{"inline_data": {"data": "x"}}]}, ("user", True, False)),
        ({"parts": [RETURNED]}, ("user", False, False)),
        ({"parts": [RETURNED, {"text": "and?"}]}, ("user", False, False)),
        ({"role": "function", "parts": [RETURNED]}, ("tool", False, False)),
        (CALLED, ("assistant", False, True)),
        ({"role": "model", "parts": [{"text": "a"}]}, ("assistant", False, False)),
    ],
)
def test_a_turn_is_told_by_role_words_and_calls(
    turn: dict[str, Any], kind: tuple[str, bool, bool]
) -> None:
    lifted = lift("gemini", body(turn), path=PATH).turns[0]

    assert (lifted.role, lifted.is_fresh, lifted.opens_calls) == kind


def test_nothing_is_placed_between_a_call_and_its_response() -> None:
    turns = [ASKED, CALLED, {"parts": [RETURNED]}]

    places = [
        place_for_context(lift("gemini", body(*turns[:end]), path=PATH))
        for end in (1, 2, 3)
    ]

    assert places == [0, None, None]


@pytest.mark.parametrize("name", ["thoughtSignature", "thought_signature"])
def test_no_text_of_the_users_ends_a_step_with_a_signed_call(name: str) -> None:
    signed = {"role": "model", "parts": [{**CALLED["parts"][0], name: "s"}]}
    results = {"parts": [RETURNED]}

    places = [
        place_for_tail(lift("gemini", body(ASKED, call, results), path=PATH), "part")
        for call in (CALLED, signed)
    ]

    assert places == [2, None]
    assert place_for_tail(lift("gemini", body(ASKED), path=PATH), "part") == 0


@pytest.mark.parametrize(
    ("contents", "form", "expected"),
    [
        ([ASKED], "part", '[{"role":"user","parts":[{"text":"why?"},{"text":"B"}]}]'),
        (
            [ASKED],
            "turn",
            '[{"role":"user","parts":[{"text":"why?"}]},'
            '{"role":"user","parts":[{"text":"B"}]}]',
        ),
        ({"parts": {"text": "q"}}, "part", '{"parts":[{"text":"q"},{"text":"B"}]}'),
        (
            {"parts": {"text": "q"}},
            "turn",
            '[{"parts":{"text":"q"}},{"role":"user","parts":[{"text":"B"}]}]',
        ),
    ],
)
def test_a_block_is_a_part_or_a_turn_in_the_providers_form(
    contents: Any, form: str, expected: str
) -> None:
    raw = compact({"contents": contents})
    lifted = lift("gemini", raw, path=PATH)

    edits = project(lifted, {0: (Append(b"B", (), 1, form),)}, part_span).edits

    assert lower(raw, edits) == b'{"contents":%b}' % expected.encode()


def test_an_embedded_picture_is_priced_by_kind_and_not_by_its_length() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo" * 20_000}}

    turn = lift("gemini", body({"parts": [picture]}), path=PATH).turns[0]

    assert turn.tokens < 5_000
