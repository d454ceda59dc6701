import pytest
from tests.bench.instructions import per_request, read_count

LOG = "==7== \n==7== I refs:        12,345\n==7== \n==7== I   refs:  2,000,345,678\n"


def test_the_last_count_of_a_log_is_the_processs() -> None:
    assert read_count(LOG) == 2_000_345_678

    with pytest.raises(RuntimeError, match="no count"):
        read_count("==7== Cachegrind\n")


def test_what_both_runs_have_in_common_falls_out() -> None:
    assert per_request((10, 1_000 + 10 * 7), (110, 1_000 + 110 * 7)) == 7
