import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.shelf import Committed, Put
from deuz_proxy.stores.sqlite_entries import (
    ENTRY_BYTES,
    commit_entries,
    drop_entries,
    read_entries,
    rewrite_entries,
    transaction,
)
from deuz_proxy.stores.sqlite_file import open_file

WIDE = Bounds(10_000, 10_000_000, 3_600)


def commit(
    file: sqlite3.Connection,
    puts: Sequence[tuple[bytes, bytes]],
    *,
    now: float = 1.0,
    touched: Mapping[bytes, float] | None = None,
    bounds: Bounds = WIDE,
    is_modest: bool = False,
) -> Committed:
    all_puts = [Put(key, sealed, is_modest) for key, sealed in puts]
    return commit_entries(file, all_puts, touched or {}, bounds=bounds, now=now)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(open_file(tmp_path / "ledger.db")) as opened:
        yield opened


def keys_of(file: sqlite3.Connection) -> list[bytes]:
    return [key for (key,) in file.execute("select key from entries order by key")]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 400), st.integers(0, 30), st.booleans()
        ),
        max_size=40,
    )
)
def test_whatever_happens_the_bounds_hold_and_totals_add_up(
    file: sqlite3.Connection, steps: list[tuple[int, int, int, bool]]
) -> None:
    file.execute("delete from entries")
    bounds, now = Bounds(3, 3 * ENTRY_BYTES + 500, 50), 0.0

    for number, length, pause, is_modest in steps:
        now += pause
        done = commit(
            file,
            [(bytes([number]), b"x" * length)],
            touched={bytes([number - 1]): now} if number else {},
            bounds=bounds,
            now=now,
            is_modest=is_modest,
        )

        rows = file.execute("select used, size, length(sealed) from entries").fetchall()
        assert done.totals == (len(rows), sum(size for _, size, _ in rows))
        assert len(rows) <= 3
        assert done.totals[1] <= bounds.max_bytes
        assert all(size == length + ENTRY_BYTES for _, size, length in rows)
        assert all(now - used < 50 for used, _, _ in rows)


def test_a_commit_that_fails_in_the_middle_changes_nothing(
    file: sqlite3.Connection,
) -> None:
    commit(file, [(b"a", b"old")])

    with pytest.raises(sqlite3.Error):
        commit(file, [(b"a", b"new"), ([], b"x")], now=2.0)  # type: ignore[list-item]  # What no key can be.

    found, totals = read_entries(file, [b"a"])
    assert found == {b"a": (1.0, b"old")}
    assert totals[0] == 1


def test_a_transaction_that_sqlite_has_ended_itself_can_be_followed_by_another(
    file: sqlite3.Connection,
) -> None:
    def fail() -> None:
        with transaction(file):
            file.execute("rollback")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    with transaction(file):
        file.execute("select 1")

    assert not file.in_transaction


def test_what_was_put_anew_meanwhile_is_not_dropped_as_damaged(
    file: sqlite3.Connection,
) -> None:
    commit(file, [(b"a", b"bad"), (b"b", b"bad")])
    commit(file, [(b"b", b"good")])

    drop_entries(file, [(b"a", b"bad"), (b"b", b"bad")])

    assert keys_of(file) == [b"b"]


def test_rewriting_goes_over_every_entry_once(file: sqlite3.Connection) -> None:
    commit(file, [(n.to_bytes(3, "big"), b"old") for n in range(1_001)])

    behind: int | None = 0
    changed = steps = 0
    while behind is not None:
        done = rewrite_entries(file, lambda _, sealed: (sealed + b"er", 1), behind)
        changed, behind, steps = changed + done.changed, done.last, steps + 1

    assert (changed, steps) == (1_001, 3)
    assert file.execute("select distinct sealed, used from entries").fetchall() == [
        (b"older", 1.0)
    ]
