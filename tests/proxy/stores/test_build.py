import os
import tracemalloc
from collections import deque
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from deuz_compiler import Append, Bare, Fold, Operation, PlacedRecord
from deuz_proxy.config.ledger import LedgerConfig
from deuz_proxy.errors import StoreUnusable
from deuz_proxy.serving import new_id
from deuz_proxy.stores.build import ledger_bounds, open_stores, weigh
from deuz_proxy.stores.ledger_memory import MemoryLedger
from deuz_proxy.stores.ledger_stored import StoredLedger
from deuz_testing.ledger_suite import Told, append


async def test_without_a_word_the_ledger_is_in_the_process() -> None:
    async with AsyncExitStack() as stack:
        stores = await open_stores(LedgerConfig(), stack, new_id=new_id, tell=Told())

        assert isinstance(stores.ledger, MemoryLedger)


async def test_a_file_is_opened_and_closed_with_the_stack(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"

    def has_log() -> bool:
        return Path(f"{path}-wal").exists()

    async with AsyncExitStack() as stack:
        config = LedgerConfig(url=f"sqlite:///{path}")
        stores = await open_stores(config, stack, new_id=new_id, tell=Told())
        assert isinstance(stores.ledger, StoredLedger)
        await stores.ledger.commit({b"k" * 24: (append("a"),)})
        assert has_log()

    # The last connection that ends takes the log with it.
    assert not has_log()


async def test_a_place_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    config = LedgerConfig(url=f"sqlite:///{tmp_path}")
    async with AsyncExitStack() as stack:
        with pytest.raises(StoreUnusable, match="it is no file"):
            await open_stores(config, stack, new_id=new_id, tell=Told())


def test_bounds_are_the_configs_and_operations_have_a_weight() -> None:
    config = LedgerConfig(max_entries=1, max_bytes=2, ttl_seconds=3)

    bounds = ledger_bounds(config)

    assert (bounds.max_entries, bounds.max_bytes, bounds.ttl_seconds) == (1, 2, 3)
    assert weigh((append("x" * 1000, "r"),)) > 1000


@pytest.mark.parametrize(("size", "records"), [(0, 0), (900, 1), (900, 8), (300, 1)])
async def test_what_the_ledger_weighs_is_about_what_it_takes(
    size: int, records: int
) -> None:
    entries = 2_000
    async with AsyncExitStack() as stack:
        told: deque[Any] = deque(maxlen=1)
        stores = await open_stores(
            LedgerConfig(), stack, new_id=new_id, tell=told.append
        )
        tracemalloc.start()
        for _ in range(entries):
            held = _block(size, records) if size else Bare()
            await stores.ledger.commit({os.urandom(16): (held,)})
        taken_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()

        assert told[0].entries == entries
        # Sizes as asked for: that of the pools they are taken from is not seen.
        assert 0.75 < taken_bytes / told[0].bytes < 1.15


def _block(size: int, records: int) -> Append:
    placed = [
        PlacedRecord("docs", f"note-{at:05d}.md", "1", os.urandom(36).hex())
        for at in range(records)
    ]
    return Append(os.urandom(size), tuple(placed), 220)


def test_each_text_and_record_has_its_weight() -> None:
    one, fold = PlacedRecord("docs", "a", "1", "d"), Fold(1, b"S", 1)
    bare: Operation = Bare()

    assert weigh((_fold_of(one, one),)) - weigh((_fold_of(one),)) > 130
    assert weigh((fold,)) > weigh((bare,)) + 140


def _fold_of(*records: PlacedRecord) -> Fold:
    return Fold(1, b"S", 1, records=records)
