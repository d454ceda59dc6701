import pytest

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.ollama.prompt import part_span, read_parts, user_text


def test_a_prompt_is_one_text() -> None:
    raw = b'"say \\"hi\\""'

    (part,) = read_parts(raw)

    assert (part.kind, part.text) == ("text", 'say "hi"')
    assert part_span(raw, 0) == (0, len(raw))
    assert user_text(raw) == 'say "hi"'


def test_what_the_sidecar_added_is_not_the_users() -> None:
    raw = rb'"why?\n\n<deuz_context note=\"n\">\nx\n</deuz_context>"'

    assert user_text(raw) == "why?"


def test_what_is_no_text_and_a_second_part_are_refused() -> None:
    with pytest.raises(NotLifted):
        read_parts(b"1")
    with pytest.raises(NotLifted):
        part_span(b'"a"', 1)
