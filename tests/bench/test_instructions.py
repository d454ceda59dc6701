from pathlib import Path

import pytest
from tests.bench import bodies, subjects
from tests.bench.instructions import per_request, read_count

from deuz_proxy.config.context import StaticSource
from deuz_proxy.config.load import load_config

LOG = "==7== \n==7== I refs:        12,345\n==7== \n==7== I   refs:  2,000,345,678\n"


def test_the_last_count_of_a_log_is_the_processs() -> None:
    assert read_count(LOG) == 2_000_345_678

    with pytest.raises(RuntimeError, match="no count"):
        read_count("==7== Cachegrind\n")


def test_what_both_runs_have_in_common_falls_out() -> None:
    assert per_request((10, 1_000 + 10 * 7), (110, 1_000 + 110 * 7)) == 7


def test_records_of_the_config_are_a_source_without_a_clock(tmp_path: Path) -> None:
    ports = subjects.Ports(own=1, admin=2, upstream=3)

    *_, config = subjects.make_compile_unclocked(tmp_path, ports)
    (source,) = load_config(Path(config), {}).context.sources

    assert isinstance(source, StaticSource)
    assert len(source.records) == bodies.PLACED_STEPS
