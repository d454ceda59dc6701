from contextlib import AsyncExitStack
from pathlib import Path

import pytest

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
