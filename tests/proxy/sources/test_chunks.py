import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.chunks import (
    MOST_CHARACTERS,
    MOST_FENCE_CHARACTERS,
    TARGET_CHARACTERS,
    Chunk,
    chunk_markdown,
    chunk_plain,
)

PARAGRAPH = "Some words that make up a sentence of a paragraph. " * 8


def ids(chunks: tuple[Chunk, ...]) -> list[str]:
    return [chunk.id for chunk in chunks]


def text_of(chunks: tuple[Chunk, ...]) -> str:
    return "\n\n".join(chunk.text for chunk in chunks)


def test_each_section_is_a_chunk_below_its_headings() -> None:
    chunks = chunk_markdown(
        "# Shop\n\nWelcome.\n\n## Returns\n\nWithin 14 days.\n\n### Fees\nNone.\n"
        "## Shipping\nFree.\n"
    )

    assert chunks == (
        Chunk("shop", "# Shop\n\nWelcome.", "# Shop"),
        Chunk("returns", "# Shop\n## Returns\n\nWithin 14 days.", "# Shop\n## Returns"),
        Chunk(
            "fees",
            "# Shop\n## Returns\n### Fees\n\nNone.",
            "# Shop\n## Returns\n### Fees",
        ),
        Chunk("shipping", "# Shop\n## Shipping\n\nFree.", "# Shop\n## Shipping"),
    )


def test_a_heading_without_text_of_its_own_is_no_chunk() -> None:
    assert ids(chunk_markdown("# A\n## B\n\n## C\ntext\n")) == ["c"]


def test_text_before_the_first_heading_stands_alone() -> None:
    assert chunk_markdown("Hello.\n\n# A\nx\n")[0] == Chunk("top", "Hello.", "")


def test_levels_may_be_skipped() -> None:
    chunks = chunk_markdown("### Deep\nx\n# Top\ny\n###\nz\n")

    assert [chunk.title for chunk in chunks] == ["### Deep", "# Top", "# Top\n###"]


@pytest.mark.parametrize(
    "line", ["#hashtag", "####### seven", "    # indented code", r"\# escaped"]
)
def test_what_only_looks_like_a_heading_is_text(line: str) -> None:
    assert ids(chunk_markdown(f"# A\n{line}\n")) == ["a"]


def test_closing_hashes_are_no_part_of_a_heading() -> None:
    assert chunk_markdown("## A ##\nx\n")[0].title == "## A"


@pytest.mark.parametrize("fence", ["```", "~~~", "````python", "  ```", "      ```"])
def test_a_heading_inside_a_fence_is_code(fence: str) -> None:
    mark = re.sub(r"\w", "", fence)

    chunks = chunk_markdown(f"# A\n{fence}\n# not a heading\n{mark}\n# B\nx\n")

    assert ids(chunks) == ["a", "b"]
    assert "# not a heading" in chunks[0].text


def test_a_fence_is_closed_by_its_own_mark_only() -> None:
    text = "# A\n````\n```\n~~~\n# code\n```` x\n````\n# B\nx\n"

    assert ids(chunk_markdown(text)) == ["a", "b"]


def test_a_fence_left_open_runs_to_the_end() -> None:
    assert ids(chunk_markdown("# A\n```\n# B\n")) == ["a"]


def test_inline_code_of_three_backticks_opens_no_fence() -> None:
    assert ids(chunk_markdown("# A\n``` code ```\n# B\nx\n")) == ["a", "b"]


def test_front_matter_is_left_out() -> None:
    chunks = chunk_markdown("---\ntitle: X\nsecret: y\n---\n# A\nx\n")

    assert chunks == (Chunk("a", "# A\n\nx", "# A"),)


def test_text_between_two_rules_at_the_top_is_kept() -> None:
    assert "kept: this" in text_of(chunk_markdown("---\nAll kept: this.\n\n---\nx\n"))


def test_line_ends_of_every_system_mean_the_same() -> None:
    assert chunk_markdown("# A\r\n\r\nx\r\n") == chunk_markdown("# A\n\nx\n")
    assert chunk_plain("a\r\rb\r\n") == chunk_plain("a\n\nb\n")


def test_sections_of_one_name_are_told_apart() -> None:
    assert ids(chunk_markdown("# A\nx\n# B\ny\n# A\nz\n# a!\nw\n")) == [
        "a",
        "b",
        "a~2",
        "a~3",
    ]


def test_an_edit_in_one_section_leaves_other_ids_and_texts_alone() -> None:
    before = chunk_markdown(f"# A\n{PARAGRAPH}\n# B\nx\n# C\ny\n")
    after = chunk_markdown(
        f"# A\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n\n{PARAGRAPH}\n# New\nn\n"
        "# B\nx\n# C\ny\n"
    )

    kept = {chunk.id: chunk for chunk in after}
    assert len(after) > len(before) + 1
    assert all(kept[chunk.id] == chunk for chunk in before if chunk.id != "a")


def test_long_names_are_cut_at_a_word() -> None:
    (chunk,) = chunk_markdown(f"# {'word ' * 30}\nx\n")
    (odd,) = chunk_markdown(f"# {'x' * 300}\nx\n")

    assert chunk.id == "-".join(["word"] * 9)
    assert odd.id == "x" * 48


def test_a_long_section_is_cut_between_paragraphs_and_repeats_its_headings() -> None:
    chunks = chunk_markdown("# A\n" + "\n\n".join([PARAGRAPH.strip()] * 7))

    assert ids(chunks) == ["a", "a.2", "a.3"]
    for chunk in chunks:
        assert chunk.text.startswith("# A\n\nSome words")
        assert chunk.text.endswith("paragraph.")
        assert len(chunk.text) <= MOST_CHARACTERS + len("# A\n\n")
    assert min(len(chunk.text) for chunk in chunks[:-1]) >= TARGET_CHARACTERS


def test_a_fence_is_kept_whole_although_it_is_longer_than_a_chunk() -> None:
    code = "\n\n".join(["call(argument)"] * 150)
    fence = f"```python\n{code}\n```"
    assert MOST_CHARACTERS < len(fence) < MOST_FENCE_CHARACTERS

    chunks = chunk_markdown(f"# A\nbefore\n{fence}\nafter\n")

    assert [fence in chunk.text for chunk in chunks].count(True) == 1


def test_a_fence_beyond_all_measure_is_cut_into_fences() -> None:
    lines = [f"call({number})" for number in range(1_000)]

    chunks = chunk_markdown("# A\n```python\n" + "\n".join(lines) + "\n```\n")

    bodies = [chunk.text.removeprefix("# A\n\n") for chunk in chunks]
    assert len(bodies) > 3
    assert all(body.startswith("```python\ncall(") for body in bodies)
    assert all(body.endswith(")\n```") for body in bodies)
    assert re.findall(r"call\(\d+\)", "\n".join(bodies)) == lines


def test_code_is_cut_before_lines_at_the_margin() -> None:
    function = "def work(value):\n    first = value\n\n    second = first\n" * 4
    blocks = [f"# part {number}\n{function}" for number in range(12)]

    chunks = chunk_plain("\n\n".join(blocks))

    assert ids(chunks) == [str(number) for number in range(1, len(chunks) + 1)]
    assert len(chunks) > 2
    assert all(not chunk.text[0].isspace() for chunk in chunks)
    assert all(len(chunk.text) <= MOST_CHARACTERS for chunk in chunks)


def test_one_endless_line_is_cut_between_sentences_or_words() -> None:
    sentences = chunk_plain("One more sentence of many. " * 200)
    words = chunk_plain("word " * 2_000)
    nothing = chunk_plain("x" * 5_000)

    assert all(chunk.text.endswith("many.") for chunk in sentences)
    assert {part for chunk in words for part in chunk.text.split()} == {"word"}
    assert [len(chunk.text) for chunk in nothing] == [1_440, 1_440, 1_440, 680]


@pytest.mark.parametrize("text", ["", "\n\n", " \n\t\n", "---\na: b\n---\n", "# A\n"])
def test_nothing_to_say_makes_no_chunk(text: str) -> None:
    assert chunk_markdown(text) == ()
    assert chunk_plain(text.partition("-")[0].partition("#")[0]) == ()


LINES = ("# A", "## B", "word", "", "```", "~~~", "    code", PARAGRAPH, "q" * 3_000)
MARKDOWN = st.lists(st.sampled_from(LINES), max_size=40).map("\n".join)


@given(MARKDOWN)
def test_nothing_that_is_said_is_lost(text: str) -> None:
    for chunks in (chunk_markdown(text), chunk_plain(text)):
        kept = text_of(chunks)

        for word in ("word", "code", "sentence", "q"):
            assert kept.count(word) == text.count(word)


@given(MARKDOWN)
def test_ids_are_unique_and_titles_part_of_the_text(text: str) -> None:
    for chunks in (chunk_markdown(text), chunk_plain(text)):
        assert len(set(ids(chunks))) == len(chunks)
        assert all(chunk.text.removeprefix(chunk.title).strip() for chunk in chunks)
        assert all(chunk.text.startswith(chunk.title) for chunk in chunks)


@given(MARKDOWN)
def test_a_chunk_stays_within_its_measure(text: str) -> None:
    for chunk in chunk_markdown(text):
        assert len(chunk.text) <= MOST_FENCE_CHARACTERS + len(chunk.title) + 2
    for chunk in chunk_plain(text):
        assert len(chunk.text) <= MOST_CHARACTERS
