import stat
from pathlib import Path

import pytest

from deuz_proxy.private_files import make_private
from deuz_proxy.sources.index import ChunkIndex
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_file import MemoryFile
from deuz_proxy.stores.sqlite_file import open_file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    make_private(tmp_path / "new.db")

    assert mode(tmp_path / "new.db") == 0o600


def test_a_file_that_others_could_read_is_closed_and_keeps_its_content(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    path.write_text("kept")
    path.chmod(0o644)

    make_private(path)

    assert (mode(path), path.read_text()) == (0o600, "kept")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is no file"):
        make_private(tmp_path)


def open_ledger(path: Path) -> None:
    open_file(path).close()


def open_memory(path: Path) -> None:
    MemoryFile(str(path), words_of).close()


def open_index(path: Path) -> None:
    ChunkIndex(str(path)).close()


@pytest.mark.parametrize("open_it", [open_ledger, open_memory, open_index])
@pytest.mark.parametrize("is_there", [False, True])
def test_all_that_keeps_text_is_private(
    open_it: object, tmp_path: Path, *, is_there: bool
) -> None:
    path = tmp_path / "kept.db"
    if is_there:
        path.touch(0o644)

    assert callable(open_it)
    open_it(path)

    assert {mode(file) for file in tmp_path.iterdir()} == {0o600}
