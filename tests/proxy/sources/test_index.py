import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.sources.chunks import Chunk
from deuz_proxy.sources.index import ChunkIndex, Stamp
from deuz_testing.chunk_index import STAMP, names, put, search

SHOP = {
    "returns.md": "Goods may be returned within 14 days of delivery.",
    "shipping.md": "Shipping is free above 50 euros.",
    "warranty.md": "The warranty covers two years.",
}


def test_the_chunk_that_answers_comes_first(index: ChunkIndex) -> None:
    put(index, SHOP)

    assert names(index, "How many days do I have to return a delivery?")[0] == (
        "returns.md"
    )
    assert names(index, "warranties")[0] == "warranty.md"
    assert search(index, "free shipping")[0].text == SHOP["shipping.md"]


def test_what_nobody_wrote_about_is_not_found(index: ChunkIndex) -> None:
    put(index, SHOP)

    assert names(index, "helicopter") == []
    assert names(index, "") == []
    assert names(index, "?! -- \"'") == []


def test_an_empty_index_answers_with_nothing(index: ChunkIndex) -> None:
    assert names(index, "anything at all") == []


def test_no_more_than_the_limit_is_answered(index: ChunkIndex) -> None:
    put(index, {f"{number}.md": "alpha" for number in range(9)})

    assert len(search(index, "alpha", 3)) == 3
    assert search(index, "alpha", 0) == []
    assert search(index, "alpha", -1) == []


def test_equal_hits_go_by_name_and_place_whatever_came_first(index: ChunkIndex) -> None:
    for name in ("c", "a", "b"):
        index.replace(name, STAMP, [Chunk("1", "alpha"), Chunk("2", "alpha")])

    found = [(hit.name, hit.chunk) for hit in search(index, "alpha")]

    assert found == [(name, chunk) for name in "abc" for chunk in "12"]


def test_the_name_of_a_file_and_its_headings_count(index: ChunkIndex) -> None:
    put(index, {"billing/invoices.md": "Paid monthly.", "other.md": "Paid yearly."})
    index.replace("x.md", STAMP, [Chunk("a", "# Refunds\n\nSee there.", "# Refunds")])

    assert names(index, "invoice") == ["billing/invoices.md"]
    assert names(index, "refund") == ["x.md"]


def test_a_score_is_a_share_of_the_best_possible(index: ChunkIndex) -> None:
    put(index, SHOP)

    (full,) = search(index, "warranty covers")
    (half,) = search(index, "warranty helicopter")
    (more,) = search(index, "warranty helicopter submarine rocket")

    assert 0 < more.score < half.score < full.score <= 1


@pytest.mark.parametrize("fillers", [0, 1, 5, 200])
def test_a_score_means_the_same_in_small_and_large_folders(
    index: ChunkIndex, fillers: int
) -> None:
    put(index, {"hit": "alpha beta gamma delta epsilon"})
    put(index, {f"n{number}": "one two three four five" for number in range(fillers)})

    (hit,) = search(index, "alpha beta")

    assert 0.9 < hit.score < 1.0


def test_hits_below_the_least_score_are_left_out(index: ChunkIndex) -> None:
    put(index, SHOP)
    (hit,) = search(index, "warranty helicopter")

    assert index.search("warranty helicopter", limit=9, min_score=hit.score) == (hit,)
    assert index.search("warranty helicopter", limit=9, min_score=hit.score + 0.01) == (
        ()
    )


def test_a_page_of_unknown_words_does_not_hide_a_hit(index: ChunkIndex) -> None:
    put(index, SHOP)
    page = " ".join(f"unheard{number}" for number in range(300))

    (hit,) = search(index, f"warranty covers two years {page}")

    assert hit.score > 0.1


def test_an_endless_query_is_cut(index: ChunkIndex) -> None:
    put(index, SHOP)

    assert names(index, "x " * 100_000 + "warranty") == []
    assert names(index, "warranty " + "x " * 100_000) == ["warranty.md"]


def test_replacing_a_file_leaves_nothing_of_its_old_chunks(index: ChunkIndex) -> None:
    put(index, SHOP)

    put(index, {"returns.md": "No returns."})

    assert names(index, "delivery") == []
    assert names(index, "returns") == ["returns.md"]
    assert len(index.stamps()) == 3


def test_a_removed_file_is_gone(index: ChunkIndex) -> None:
    put(index, SHOP)

    index.remove("returns.md")
    index.remove("never.md")

    assert names(index, "delivery days") == []
    assert sorted(index.stamps()) == ["shipping.md", "warranty.md"]


def test_scores_do_not_depend_on_what_was_there_before(index: ChunkIndex) -> None:
    put(index, SHOP)
    before = search(index, "free shipping days")

    put(index, {"extra.md": "free shipping days", "returns.md": "other"})
    index.remove("extra.md")
    put(index, SHOP)

    assert search(index, "free shipping days") == before


def test_marking_a_file_changes_its_stamp_only(index: ChunkIndex) -> None:
    put(index, SHOP)

    index.mark("returns.md", Stamp(5, 6, b"other", "binary"))

    assert index.stamps()["returns.md"] == Stamp(5, 6, b"other", "binary")
    assert names(index, "delivery") == ["returns.md"]


def test_a_change_that_is_rolled_back_was_never_made(index: ChunkIndex) -> None:
    put(index, SHOP)

    index.begin()
    put(index, {"extra.md": "helicopter"})
    index.remove("returns.md")
    index.rollback()
    index.rollback()

    assert names(index, "helicopter delivery") == ["returns.md"]


def test_an_index_in_a_file_is_there_again(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    first = ChunkIndex(path)
    first.begin()
    put(first, SHOP)
    first.commit()
    first.close()

    second = ChunkIndex(path)

    assert names(second, "delivery") == ["returns.md"]
    assert second.stamps() == dict.fromkeys(SHOP, STAMP)
    second.close()
    second.close()


def test_an_index_of_another_version_is_built_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    first = ChunkIndex(path)
    put(first, SHOP)
    first.close()
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()

    second = ChunkIndex(path)

    assert second.stamps() == {}
    put(second, SHOP)
    assert names(second, "delivery") == ["returns.md"]
    second.close()


def test_a_file_that_is_no_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_text("not a database, certainly not one" * 50)

    with pytest.raises(sqlite3.DatabaseError):
        ChunkIndex(str(tmp_path / "index.db"))


def test_what_was_asked_before_a_change_is_found_as_after_it(index: ChunkIndex) -> None:
    put(index, SHOP)
    index.begin()
    index.remove("returns.md")
    within = names(index, "delivery")
    index.rollback()
    undone = names(index, "delivery")
    put(index, {"extra.md": "delivery"})

    assert within == []
    assert undone == ["returns.md"]
    assert names(index, "delivery") == ["extra.md", "returns.md"]


def test_of_an_index_in_a_file_nothing_is_found_at_once(tmp_path: Path) -> None:
    index = ChunkIndex(str(tmp_path / "i.db"))
    put(index, SHOP)
    search(index, "delivery")

    assert index.search_at_once("delivery", limit=9, min_score=0) is None
    index.close()


def test_who_begins_a_change_sees_what_another_connection_changed_before(
    tmp_path: Path,
) -> None:
    first, second = (
        ChunkIndex(str(tmp_path / "i.db")),
        ChunkIndex(str(tmp_path / "i.db")),
    )
    put(first, SHOP)
    before = names(first, "delivery")

    put(second, {"extra.md": "delivery"})
    first.begin()

    assert before == ["returns.md"]
    assert names(first, "delivery") == ["extra.md", "returns.md"]
    first.rollback()
    first.close()
    second.close()


def test_two_connections_see_whole_changes_only(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    writer, reader = ChunkIndex(path), ChunkIndex(path)

    writer.begin()
    put(writer, SHOP)
    before = names(reader, "delivery")
    writer.commit()

    assert before == []
    assert names(reader, "delivery") == ["returns.md"]
    writer.close()
    reader.close()


@given(st.text(st.characters(codec=None), max_size=80))
def test_no_query_is_an_error(text: str) -> None:
    index = ChunkIndex(":memory:")
    put(index, SHOP)

    hits = search(index, text)

    assert all(0 <= hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
    index.close()


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "a AND",
        "NEAR(x y)",
        "col:x",
        "x*",
        "^x",
        "-x",
        "(",
        "x OR",
        "{a b}:c",
        "NOT",
    ],
)
def test_operators_of_the_index_are_words_like_any_other(
    index: ChunkIndex, text: str
) -> None:
    put(index, {"a": "near and or not col x y a"})

    assert isinstance(search(index, text), list)


def test_an_index_is_filled_once_a_change_was_made_even_an_empty_one(
    tmp_path: Path,
) -> None:
    first, second = (
        ChunkIndex(str(tmp_path / "i.db")),
        ChunkIndex(str(tmp_path / "i.db")),
    )

    first.begin()
    first.replace("a", STAMP, [Chunk("1", "alpha")])
    first.rollback()
    before = (first.is_filled(), second.is_filled())
    first.begin()
    first.commit()

    assert before == (False, False)
    assert (first.is_filled(), second.is_filled()) == (True, True)
    first.close()
    second.close()


def test_readers_of_a_file_are_not_held_up_by_a_change(tmp_path: Path) -> None:
    writer = ChunkIndex(str(tmp_path / "i.db"))
    put(writer, SHOP)
    writer.begin()
    # More than SQLite keeps in its own memory.
    for number in range(300):
        writer.replace(f"{number}", STAMP, [Chunk("1", "shipping " * 2_000)])

    reader = ChunkIndex(str(tmp_path / "i.db"))

    assert names(reader, "free shipping") == ["shipping.md"]
    writer.commit()
    assert len(names(reader, "free shipping")) == 9
    reader.close()
    writer.close()
