"""Every test here that takes `s` runs once for each wire of the table."""

import pytest

from deuz_testing.specimens.table import SPECIMENS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "s" in metafunc.fixturenames:
        metafunc.parametrize("s", SPECIMENS.values(), ids=SPECIMENS.keys())
