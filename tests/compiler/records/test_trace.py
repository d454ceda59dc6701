import pytest

from deuz_compiler.records.trace import Block


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (Block("ineligible", "a", "expired"), "dependency-ineligible:a(expired)"),
        (Block("collision", "a"), "alternative-collision:a"),
        (Block("missing", "a"), "missing-dependency:a"),
    ],
)
def test_obstacle_is_told_in_one_word_and_its_key(block: Block, text: str) -> None:
    assert str(block) == text
