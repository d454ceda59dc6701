"""What is answered at once is what is answered, and little work."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.chunks import Chunk
from deuz_proxy.sources.index import ChunkIndex
from deuz_proxy.sources.scores import Hit
from deuz_proxy.weights import FUNCTION_WORDS
from deuz_testing.chunk_index import STAMP, names, put, search


def at_once(index: ChunkIndex, text: str, limit: int = 9) -> list[Hit] | None:
    hits = index.search_at_once(text, limit=limit, min_score=0)
    return None if hits is None else list(hits)


@given(
    st.lists(st.text("abc ", max_size=12), max_size=8),
    st.lists(st.text("abcd ", max_size=12), min_size=1, max_size=5),
)
def test_what_is_found_at_once_is_what_is_found(
    texts: list[str], questions: list[str]
) -> None:
    index = ChunkIndex(":memory:")
    put(index, {f"{number}.md": text for number, text in enumerate(texts)})

    for question in questions:
        found = at_once(index, question)
        assert found == search(index, question)
    index.close()


def test_only_little_work_is_done_at_once(index: ChunkIndex) -> None:
    words = " ".join(f"new{number}" for number in range(9))
    put(index, {f"{number}.md": f"often {number}" for number in range(401)})
    put(index, {"words.md": words})

    assert at_once(index, "often") is None
    assert at_once(index, words) is None
    assert at_once(index, "often", limit=0) is None
    assert at_once(index, "7") == search(index, "7")
    search(index, "often")
    search(index, words)
    assert at_once(index, "often") == search(index, "often")
    assert at_once(index, words) == search(index, words)


def test_of_a_large_index_nothing_is_found_at_once(index: ChunkIndex) -> None:
    chunks = [Chunk(str(number), f"word {number}") for number in range(2_000)]
    index.replace("a.md", STAMP, chunks)
    search(index, "5")
    before = at_once(index, "5")
    put(index, {"b.md": "one more"})
    search(index, "5")

    assert before == search(index, "5")
    assert at_once(index, "5") is None


def test_of_a_question_that_leads_to_thousands_of_chunks_rare_words_are_asked(
    index: ChunkIndex,
) -> None:
    index.replace("common", STAMP, [Chunk(str(n), "beta") for n in range(8_000)])
    put(index, {"rare": "alpha", "both": "alpha beta"})

    bounded = names(index, "alpha beta")
    alone = search(index, "beta", 3)

    assert bounded == ["rare", "both"]
    assert [hit.name for hit in alone] == ["common"] * 3


@pytest.fixture
def asked(index: ChunkIndex) -> ChunkIndex:
    """An index of 600 chunks, no two alike, of which common words were asked for."""
    texts = [f"some path to go {'or ' * number} and on" for number in range(150)]
    for number in range(4):
        chunks = [Chunk(str(n), text) for n, text in enumerate(texts)]
        index.replace(f"way{number}.md", STAMP, chunks)
    put(index, {"twins.md": "twin"})
    index.replace("alike", STAMP, [Chunk(str(n), "twin") for n in range(501)])
    search(index, "path twin")
    return index


GLUE: Sequence[str] = sorted(word for word in FUNCTION_WORDS if word.isascii())


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        # More chunks than are worth reading meanwhile.
        ("path", 61),
        # Each word that holds it together would be looked for in each chunk.
        (" ".join(["path", *GLUE[:60]]), 20),
        # Hundreds fit as well as the last one.
        ("twin", 9),
        # What was never met is to be told apart, whatever it says.
        ("path " + "\u4e2d\u6587" * 70, 9),
        ("path " + " ".join(f"\u00c9t\u00e9{number}" for number in range(60)), 9),
        ("path " + " ".join(f"aB{number}" for number in range(130)), 9),
    ],
)
def test_what_may_take_long_is_left_to_the_thread(
    asked: ChunkIndex, text: str, limit: int
) -> None:
    assert at_once(asked, "path", 60) == search(asked, "path", 60)
    assert at_once(asked, " ".join(["path", *GLUE[:40]]), 20) is not None
    assert at_once(asked, text, limit) is None


def test_words_that_nobody_wrote_are_little_work(asked: ChunkIndex) -> None:
    strange = " ".join(f"strange{number}" for number in range(30))

    assert at_once(asked, f"path {strange}") == search(asked, f"path {strange}")
