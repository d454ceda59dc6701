import subprocess
import sys
from pathlib import Path

import pytest

from deuz_proxy.sources.sole import sole_process

HOLDING = """
import sys
from pathlib import Path
from deuz_proxy.sources.sole import sole_process
with sole_process(Path(sys.argv[1])) as is_sole:
    print(is_sole, flush=True)
    sys.stdin.read()
"""


def test_who_comes_second_is_told_so_until_the_first_has_left(tmp_path: Path) -> None:
    file = tmp_path / "docs.db"

    with sole_process(file) as first, sole_process(file) as second:
        pass
    with sole_process(file) as third:
        pass

    assert (first, second, third) == (True, False, True)
    assert oct((tmp_path / "docs.db-looking").stat().st_mode)[-3:] == "600"


def test_other_files_are_other_work(tmp_path: Path) -> None:
    with sole_process(tmp_path / "a") as one, sole_process(tmp_path / "b") as other:
        pass

    assert (one, other) == (True, True)


def test_without_a_file_there_is_nobody_else() -> None:
    with sole_process(None) as first, sole_process(None) as second:
        pass

    assert (first, second) == (True, True)


def test_a_process_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "docs.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        said = other.stdout.readline()
        with sole_process(file) as meanwhile:
            pass
        other.kill()
        other.wait()

    with sole_process(file) as after:
        pass
    assert (said, meanwhile, after) == ("True\n", False, True)


def test_a_mark_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such"), sole_process(tmp_path / "no" / "x"):
        pass
