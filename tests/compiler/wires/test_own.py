import pytest

from deuz_compiler.wires.own import (
    BLOCK_TAG,
    QUESTION_MARKER,
    SUMMARY_MARKER,
    TAIL_TAG,
    is_own_text,
    split_question,
    summary_body,
    without_own_blocks,
)

BLOCK = f'<{BLOCK_TAG} note="n">\nx\n</{BLOCK_TAG}>'
TAIL = f'<{TAIL_TAG} revision="1">\nx\n</{TAIL_TAG}>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain  ", "plain  "),
        (BLOCK, ""),
        (f"{BLOCK}\n{TAIL}", ""),
        (f"question\n\n{BLOCK}", "question"),
        (f"before {BLOCK} between {TAIL} after", "before\n\nbetween\n\nafter"),
        (f"an opener <{BLOCK_TAG} alone", f"an opener <{BLOCK_TAG} alone"),
        (f"<{BLOCK_TAG}> without attributes", f"<{BLOCK_TAG}> without attributes"),
    ],
)
def test_whole_blocks_are_cut_and_halves_are_kept(text: str, expected: str) -> None:
    assert without_own_blocks(text) == expected


def test_many_openers_without_closer_are_read_once() -> None:
    text = f"<{BLOCK_TAG} " * 100_000

    assert without_own_blocks(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SUMMARY_MARKER}\nnotes\nmore", "notes\nmore"),
        (f"{SUMMARY_MARKER} notes", None),
        (f"he wrote {SUMMARY_MARKER}\nnotes", None),
        ("", None),
    ],
)
def test_summary_is_known_by_its_first_line(text: str, expected: str | None) -> None:
    assert summary_body(text) == expected


@pytest.mark.parametrize("text", [BLOCK, TAIL, f"{SUMMARY_MARKER}\nnotes"])
def test_blocks_and_summaries_are_own(text: str) -> None:
    assert is_own_text(text)


@pytest.mark.parametrize("text", ["", "hello", f"{BLOCK} and my question"])
def test_what_a_user_wrote_is_not_own(text: str) -> None:
    assert not is_own_text(text)


def test_question_that_a_summary_repeats_is_told_from_its_notes() -> None:
    body = f"notes\n\n{QUESTION_MARKER}\nwhy?\n\nand how?"

    assert split_question(body) == ("notes", "why?\n\nand how?")
    assert split_question("notes") == ("notes", "")
