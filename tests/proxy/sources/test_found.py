import sqlite3
from collections.abc import Iterator, Sequence

import pytest

from deuz_proxy.sources.found import FoundChunk, KeptChunks
from deuz_proxy.sources.static import text_digest

TEXTS = ("Alpha", "Über β", "gamma")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.execute(
        "CREATE TABLE chunks (id INTEGER PRIMARY KEY, name, position, chunk, text)"
    )
    made.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, 'top', ?)",
        [(row, f"{row}.md", row, text) for row, text in enumerate(TEXTS, 1)],
    )
    yield made
    made.close()


@pytest.fixture
def said(connection: sqlite3.Connection) -> list[str]:
    statements: list[str] = []
    connection.set_trace_callback(statements.append)
    return statements


def by_row(found: Sequence[FoundChunk]) -> list[FoundChunk]:
    return sorted(found, key=lambda each: each.row)


def test_a_chunk_is_given_with_what_is_told_from_its_text(
    connection: sqlite3.Connection,
) -> None:
    (found,) = KeptChunks(connection).take([2])

    digest = text_digest("Über β")
    assert found == FoundChunk(2, "2.md", 2, "top", "Über β", "über β", digest)


def test_what_was_found_before_is_not_read_again(
    connection: sqlite3.Connection, said: list[str]
) -> None:
    kept = KeptChunks(connection)
    first = by_row(kept.take([1, 2]))
    said.clear()

    again = by_row(kept.take([1, 2]))
    more = by_row(kept.take([1, 2, 3]))

    assert again == first
    assert [each.text for each in more] == list(TEXTS)
    assert len(said) == 1


def test_what_is_forgotten_is_read_as_it_is_now(connection: sqlite3.Connection) -> None:
    kept = KeptChunks(connection)
    kept.take([1])
    connection.execute("UPDATE chunks SET text = 'delta' WHERE id = 1")

    before = kept.take([1])
    kept.forget()

    assert [each.text for each in before] == ["Alpha"]
    assert [each.text for each in kept.take([1])] == ["delta"]


@pytest.mark.parametrize(("most", "read_again"), [(32, 0), (31, 1)])
def test_no_more_characters_are_kept_than_allowed(
    connection: sqlite3.Connection, said: list[str], most: int, read_again: int
) -> None:
    # Sixteen characters, each as it is and in small letters.
    kept = KeptChunks(connection, most_characters=most)
    kept.take([1, 2])
    kept.take([3])
    said.clear()

    found = by_row(kept.take([1, 2, 3]))

    assert [each.text for each in found] == list(TEXTS)
    assert len(said) == read_again
