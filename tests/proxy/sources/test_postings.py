import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.best_rows import unpack
from deuz_proxy.sources.postings import KeptPostings

WORDS = ("alpha", "beta", "gamma", "delta")
TABLES = """
CREATE TABLE IF NOT EXISTS chunks (id INTEGER PRIMARY KEY);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title, body);
"""


def filled(location: str, texts: Sequence[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(location, isolation_level=None)
    connection.executescript(TABLES)
    for text in texts:
        connection.execute("INSERT INTO chunks DEFAULT VALUES")
        connection.execute("INSERT INTO words (title, body) VALUES ('', ?)", (text,))
    return connection


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    texts = ["alpha beta", "alpha alpha", "beta gamma", "alpha"]
    made = filled(str(tmp_path / "i.db"), texts)
    yield made
    made.close()


@pytest.fixture
def said(connection: sqlite3.Connection) -> list[str]:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    return statements


def fitting(
    postings: KeptPostings, words: Iterable[str] = WORDS, most: int = 99
) -> dict[int, tuple[float, float]]:
    known = sorted(each for each in postings.weighed(words) if each[2])
    shares = [2.0**place for place in range(len(known))]
    found = postings.fitting(known, shares, most) if known else ()
    return {row: (fit, share) for row, fit, share in found}


def fits_of(postings: KeptPostings, word: str) -> dict[int, float]:
    return dict(unpack(postings.posting(word)))


def holding(postings: KeptPostings, word: str) -> int:
    return postings.weighed([word])[0][2]


def test_a_word_tells_which_chunks_have_it_and_how_well_it_fits(
    connection: sqlite3.Connection,
) -> None:
    postings = KeptPostings(connection)

    fits = fits_of(postings, "alpha")

    assert (postings.chunks(), holding(postings, "alpha")) == (4, 3)
    assert (holding(postings, "omega"), fits_of(postings, "omega")) == (0, {})
    # Said twice, and said alone, it fits better than among others.
    assert fits[2] > fits[4] > fits[1] > 0


def test_what_is_known_of_a_word_is_not_asked_for_again(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    postings = KeptPostings(connection)
    first = fitting(postings)
    asked = len(said)

    again = fitting(postings)

    assert again == first
    assert len(said) == asked > 0


def test_what_another_connection_changes_is_noticed(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    postings = KeptPostings(connection)
    is_first = postings.notice_others()
    before = (postings.chunks(), holding(postings, "alpha"), len(fitting(postings)))

    filled(str(tmp_path / "i.db"), ["alpha", "gamma"]).close()
    is_changed = postings.notice_others()

    after = (postings.chunks(), holding(postings, "alpha"), len(fitting(postings)))
    assert (is_first, is_changed, postings.notice_others()) == (True, True, False)
    assert before == (4, 3, 4)
    assert after == (6, 4, 6)


def test_while_nothing_changes_nothing_is_let_go(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    postings = KeptPostings(connection)
    postings.notice_others()
    fitting(postings)
    said.clear()

    postings.notice_others()
    fitting(postings)

    assert said == ["PRAGMA data_version"]


@given(
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=9
    ),
    kept=st.integers(0, 12),
    most=st.integers(1, 12),
)
def test_the_best_rows_have_what_their_words_fit_whatever_is_let_go(
    texts: list[str], kept: int, most: int
) -> None:
    connection = filled(":memory:", texts)
    plain = KeptPostings(connection)
    words = [word for _, word, held in sorted(plain.weighed(WORDS)) if held]
    wanted = {
        row: [fits_of(plain, word).get(row, 0.0) for word in words]
        for row in range(1, len(texts) + 1)
    }
    best = sorted((sum(fits) for fits in wanted.values()), reverse=True)[:most]
    postings = KeptPostings(connection, most_fits=kept, most_words=kept // 4)

    for _ in range(2):
        found = fitting(postings, most=most)

        sums = {row: round(sum(fits), 9) for row, fits in wanted.items()}
        assert {row: round(fit, 9) for row, (fit, _) in found.items()} == {
            row: sums[row] for row in found
        }
        assert {row: share for row, (_, share) in found.items()} == {
            row: sum(2.0**place for place, fit in enumerate(wanted[row]) if fit)
            for row in found
        }
        good = {r for r, fit in sums.items() if fit > 0 and fit >= best[-1] - 1e-9}
        assert good == found.keys()
    connection.close()


def test_of_rows_that_share_their_words_only_the_best_are_told(
    connection: sqlite3.Connection,
) -> None:
    found = fitting(KeptPostings(connection), ["alpha"], 1)

    assert list(found) == [2]


@given(
    written=st.lists(st.lists(st.sampled_from(WORDS), max_size=4), max_size=5),
    asked=st.lists(st.sampled_from((*WORDS, "omega")), min_size=1, max_size=8),
    most=st.integers(0, 5),
)
def test_words_that_were_never_written_are_told_as_if_they_were_asked_for(
    written: list[list[str]], asked: list[str], most: int
) -> None:
    texts = [" ".join(words) for words in written]
    connection = filled(":memory:", texts)
    plain = KeptPostings(connection)
    sole = KeptPostings(connection, most_words=most, is_sole=True)
    sole.wrote(texts)

    assert sole.weighed(asked) == plain.weighed(asked)
    connection.close()


def test_a_word_that_was_never_written_takes_no_statement(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    postings = KeptPostings(connection, is_sole=True)
    postings.wrote(["alpha beta", "gamma"])
    postings.chunks()
    said.clear()

    news = postings.new_words(["omega", "alpha"])
    told = holding(postings, "omega"), holding(postings, "delta")

    assert (news, told, said) == (1, (0, 0), [])


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        # A letter that the index's Unicode does not know parts the word.
        ("alpha\u19b0beta gamma", "alpha"),
        # A sum sign at a word's end becomes `ς`, which the index folds.
        ("x\u03c2", "x\u03c3"),
    ],
)
def test_words_that_the_index_takes_otherwise_are_asked_for(
    text: str, asked: str
) -> None:
    connection = filled(":memory:", [text])
    sole = KeptPostings(connection, is_sole=True)
    sole.wrote([text])

    assert sole.new_words([asked]) == 1
    assert holding(sole, asked) == 1
    connection.close()


def test_no_more_fits_are_kept_than_4_8_megabytes_of_them() -> None:
    words = [f"w{number}" for number in range(401)]
    connection = filled(":memory:", [" ".join(words)] * 1_000)
    postings, said = KeptPostings(connection), list[str]()
    for word in words[:400]:
        postings.posting(word)
    connection.set_trace_callback(said.append)

    for word in words[:400]:
        postings.posting(word)
    kept = len(said)
    postings.posting(words[400])
    before = len(said)
    postings.posting(words[0])

    # 400,000 are kept; one word more, and all before it are let go.
    assert kept == 0 < before < len(said)
    connection.close()
