from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deuz_proxy.config.context import FilesSource
from deuz_proxy.sources.folder import Found, read_text
from deuz_proxy.sources.folder_index import LOOK_SECONDS, SLICE_SECONDS, FolderIndex


class World:
    """A folder of files of one word each, and a clock that reading moves on."""

    def __init__(self, folder: Path) -> None:
        self.now = 100.0
        self.read_seconds = SLICE_SECONDS
        self.names: list[str] = []
        self.failing = ""
        self.folder = folder

    def clock(self) -> float:
        return self.now

    def read(self, file: Found) -> str:
        self.names.append(file.name)
        self.now += self.read_seconds
        if file.name == self.failing:
            raise OSError("gone")
        return read_text(file)

    def write(self, **words: str) -> None:
        for name, word in words.items():
            (self.folder / f"{name}.txt").write_text(word)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "docs")
    made.folder.mkdir()
    made.write(a="alpha", b="beta", c="gamma")
    return made


Open = Callable[..., FolderIndex]


@pytest.fixture
def open_index(world: World) -> Iterator[Open]:
    opened: list[FolderIndex] = []

    def made(**fields: Any) -> FolderIndex:
        config = FilesSource.model_validate(
            {"type": "files", "id": "docs", "path": world.folder, **fields}
        )
        opened.append(FolderIndex(config, world.clock, world.read))
        return opened[-1]

    yield made
    for index in opened:
        index.close()


def look(index: FolderIndex) -> int:
    """Look to the end; return how many slices it took."""
    slices = 1
    while not index.look_on():
        slices += 1
    return slices


def found(index: FolderIndex, word: str) -> list[str] | None:
    hits = index.search(word, 9, 0.0)
    return None if hits is None else [hit.name for hit in hits]


def test_a_look_ends_its_slice_when_the_time_is_over(
    world: World, open_index: Open
) -> None:
    index = open_index()

    ends = [index.look_on() for _ in range(4)]

    # The last slice finds nothing left to read, and makes the change.
    assert ends == [False, False, False, True]
    assert world.names == ["a.txt", "b.txt", "c.txt"]


def test_files_that_are_read_at_once_take_one_slice(
    world: World, open_index: Open
) -> None:
    world.read_seconds = 0.0

    assert look(open_index()) == 1


def test_nothing_is_answered_before_a_first_look_has_ended(open_index: Open) -> None:
    index = open_index()
    index.look_on()

    before = found(index, "alpha")
    look(index)

    assert before is None
    assert found(index, "alpha") == ["a.txt"]


def test_at_once_is_answered_while_no_look_is_due(
    world: World, open_index: Open
) -> None:
    index = open_index()

    def at_once() -> list[str] | None:
        hits = index.search_at_once("beta", 9, 0.0)
        return None if hits is None else [hit.name for hit in hits]

    at_first = at_once()
    look(index)
    unsure = at_once()
    found(index, "beta")
    settled = at_once()
    world.now += 0.5
    later = at_once()
    world.now += 60
    when_due = at_once()
    world.failing = "d.txt"
    world.write(d="beta")
    with pytest.raises(OSError, match="gone"):
        look(index)
    failed = at_once()

    assert at_first is None
    assert unsure is None
    assert settled == ["b.txt"]
    assert later == ["b.txt"]
    assert when_due is None
    assert failed is None


def test_during_a_look_nothing_is_answered_at_once(
    world: World, open_index: Open
) -> None:
    index = open_index()
    look(index)
    found(index, "beta")
    world.now += 60
    world.read_seconds = 1
    world.write(d="delta", e="beta")
    assert not index.look_on()
    world.now -= 100

    assert index.is_looking
    assert index.search_at_once("beta", 9, 0.0) is None


def test_an_empty_folder_was_looked_at_too(world: World, open_index: Open) -> None:
    for file in world.folder.iterdir():
        file.unlink()
    index = open_index()

    look(index)

    assert found(index, "alpha") == []


def test_during_a_later_look_what_it_has_come_to_is_answered(
    world: World, open_index: Open
) -> None:
    index = open_index()
    look(index)
    world.write(a="changed", c="changed")
    world.now += 1_000

    index.look_on()
    assert (index.is_looking, found(index, "changed")) == (True, ["a.txt"])
    assert found(index, "gamma") == ["c.txt"]
    look(index)

    assert (index.is_looking, found(index, "changed")) == (False, ["a.txt", "c.txt"])


def test_only_the_time_of_its_slices_makes_the_next_look_wait(
    world: World, open_index: Open
) -> None:
    index = open_index()
    while not index.look_on():
        # What came between: searches, or other work of the machine.
        world.now += 500
    world.names.clear()
    world.write(a="changed")

    world.now += 20 * 3 * SLICE_SECONDS - 0.01
    look(index)
    early = list(world.names)
    world.now += 0.02
    look(index)

    assert 20 * 3 * SLICE_SECONDS > LOOK_SECONDS
    assert (early, world.names) == ([], ["a.txt"])


def test_a_fault_leaves_the_index_as_it_was_and_is_told_until_a_look_ends_well(
    world: World, open_index: Open
) -> None:
    index = open_index()
    look(index)
    world.write(a="changed", b="changed")
    world.now += 1_000
    world.failing = "b.txt"

    index.look_on()
    for _ in range(2):
        with pytest.raises(OSError, match="gone"):
            look(index)
        with pytest.raises(OSError, match="gone"):
            found(index, "alpha")
    world.failing = ""
    world.names.clear()
    look(index)

    assert found(index, "changed") == ["a.txt", "b.txt"]
    assert world.names == ["a.txt", "b.txt"]


def test_a_shared_index_is_filled_by_one_and_answered_from_by_all(
    world: World, open_index: Open, tmp_path: Path
) -> None:
    first, second = [open_index(index=tmp_path / "docs.db") for _ in range(2)]
    first.look_on()

    look(second)
    meanwhile = (found(second, "alpha"), list(world.names))
    look(first)

    assert meanwhile == (None, ["a.txt"])
    assert found(second, "alpha") == ["a.txt"]
    assert world.names == ["a.txt", "b.txt", "c.txt"]


def test_a_process_that_ends_in_its_first_look_leaves_it_to_the_others(
    world: World, open_index: Open, tmp_path: Path
) -> None:
    first, second = [open_index(index=tmp_path / "docs.db") for _ in range(2)]
    first.look_on()
    look(second)

    first.close()
    world.now += LOOK_SECONDS
    look(second)

    assert found(second, "gamma") == ["c.txt"]


def test_who_reads_a_shared_index_sees_another_ones_change_as_a_whole(
    world: World, open_index: Open, tmp_path: Path
) -> None:
    first, second = [open_index(index=tmp_path / "docs.db") for _ in range(2)]
    look(first)
    look(second)
    world.write(a="changed", b="changed")
    world.now += 1_000

    first.look_on()
    look(second)
    meanwhile = (found(second, "changed"), found(second, "alpha"))
    look(first)

    assert meanwhile == ([], ["a.txt"])
    assert found(second, "changed") == ["a.txt", "b.txt"]


def test_a_look_that_is_stopped_ends_after_its_file_and_keeps_nothing(
    world: World, open_index: Open, tmp_path: Path
) -> None:
    index = open_index(index=tmp_path / "docs.db")
    index.look_on()

    index.stop()
    is_over = index.look_on()
    index.close()

    assert is_over
    assert world.names == ["a.txt", "b.txt"]
    assert found(open_index(index=tmp_path / "docs.db"), "alpha") is None
