import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def rounded(sums: Mapping[int, float]) -> dict[int, float]:
    return {row: round(each, 9) for row, each in sums.items() if each}


def test_a_word_tells_which_chunks_have_it_and_how_well_it_fits(
    connection: sqlite3.Connection,
) -> None:
    postings = KeptPostings(connection)

    fits = postings.fits("alpha")

    assert (postings.chunks(), postings.holding("alpha")) == (4, 3)
    assert (postings.holding("omega"), postings.fits("omega")) == (0, {})
    # Said twice, and said alone, it fits better than among others.
    assert fits[2] > fits[4] > fits[1] > 0


def test_what_is_known_of_a_word_is_not_asked_for_again(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    postings = KeptPostings(connection)
    first = postings.sums(WORDS)
    asked = len(said)

    again = postings.sums(WORDS)

    assert again == first
    assert len(said) == asked > 0


def test_what_another_connection_changes_is_noticed(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    postings = KeptPostings(connection)
    postings.notice_others()
    before = (postings.chunks(), postings.holding("alpha"), len(postings.fits("alpha")))

    filled(str(tmp_path / "i.db"), ["alpha", "gamma"]).close()
    postings.notice_others()

    after = (postings.chunks(), postings.holding("alpha"), len(postings.fits("alpha")))
    assert before == (4, 3, 3)
    assert after == (6, 4, 4)


def test_while_nothing_changes_nothing_is_let_go(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    postings = KeptPostings(connection)
    postings.notice_others()
    postings.sums(WORDS)
    said.clear()

    postings.notice_others()
    postings.sums(WORDS)

    assert said == ["PRAGMA data_version"]


@given(
    texts=st.lists(
        st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), max_size=9
    ),
    most=st.integers(0, 12),
)
def test_sums_are_those_of_the_fits_whatever_is_let_go(
    texts: list[str], most: int
) -> None:
    connection = filled(":memory:", texts)
    plain = KeptPostings(connection)
    wanted: dict[int, float] = {}
    for word in WORDS:
        for row, fit in plain.fits(word).items():
            wanted[row] = wanted.get(row, 0.0) + fit
    postings = KeptPostings(connection, most_fits=most, most_words=most // 4)

    sums = [rounded(postings.sums(WORDS)) for _ in range(2)]

    assert sums == [rounded(wanted)] * 2
    connection.close()
