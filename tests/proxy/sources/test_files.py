import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.config.context import FilesSource
from deuz_proxy.errors import SourceFailed, StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.files import FolderFiles
from deuz_proxy.sources.folder import Found, read_text


class ManualClock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Reader:
    """A reader of files that keeps their names and may be held up."""

    def __init__(self, clock: ManualClock) -> None:
        self.names: list[str] = []
        self.failing = ""
        self.held = ""
        self.seconds = 0.0
        self._clock = clock
        self.is_reading = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._gate = threading.Event()
        self._gate.set()

    def hold(self, name: str = "") -> None:
        """Make the next file wait, or the one of this name."""
        self.held = name
        self._gate.clear()

    def release(self) -> None:
        """Let waiting files go on."""
        self._gate.set()

    def __call__(self, file: Found) -> str:
        self.names.append(file.name)
        if file.name == self.failing:
            raise OSError
        if self.held in ("", file.name):
            self._loop.call_soon_threadsafe(self.is_reading.set)
            self._gate.wait(10)
        self._clock.now += self.seconds
        return read_text(file)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    (made / "returns.md").write_text("# Shop\n## Returns\nReturned within 14 days.\n")
    (made / "shipping.txt").write_text("Shipping is free above 50 euros.\n")
    return made


Open = Callable[..., FolderFiles]


@pytest_asyncio.fixture
async def reader(clock: ManualClock) -> Reader:
    return Reader(clock)


@pytest_asyncio.fixture
async def open_source(
    docs: Path, clock: ManualClock, reader: Reader
) -> AsyncIterator[Open]:
    opened: list[FolderFiles] = []

    def made(**fields: Any) -> FolderFiles:
        config = FilesSource.model_validate(
            {"type": "files", "id": "docs", "path": docs, "min_score": 0, **fields}
        )
        opened.append(FolderFiles(config, clock=clock, read=reader))
        return opened[-1]

    yield made
    for source in opened:
        await source.close()


@pytest.fixture
def source(open_source: Open) -> FolderFiles:
    return open_source()


async def found(source: FolderFiles, text: str, limit: int = 9) -> list[str]:
    query = Query(text=text, scope="default", limit=limit)
    return [record.record_id for record in await source.find(query)]


async def test_a_question_finds_the_section_that_answers(source: FolderFiles) -> None:
    assert await found(source, "How many days to return?") == ["returns.md#returns"]
    assert await found(source, "free shipping") == ["shipping.txt#1"]
    assert await found(source, "helicopter") == []


async def test_a_candidate_says_where_it_is_from(source: FolderFiles) -> None:
    (candidate,) = await source.find(Query(text="return", scope="default", limit=1))

    assert (source.id, source.kind, source.is_required) == ("docs", "rag", False)
    assert candidate.key == "docs/returns.md#returns"
    assert candidate.kind == "rag"
    assert candidate.text == "# Shop\n## Returns\n\nReturned within 14 days."
    assert candidate.origin == "returns.md"
    assert candidate.digest.startswith(f"sha256:{candidate.revision}")
    assert 0 < candidate.score <= 1
    assert candidate.requirement == "discretionary"


async def test_the_same_folder_and_question_give_the_same_candidates(
    open_source: Open,
) -> None:
    query, source = Query("free days within", "default", 9), open_source()

    first = await source.find(query)
    second = await open_source().find(query)
    # Of words that are known nobody waits for the thread.
    here = source.find_here(query)

    assert len(first) == 2
    assert first == second == here


async def test_hits_below_the_least_score_are_not_offered(open_source: Open) -> None:
    assert await found(open_source(min_score="0.9"), "return days of balloons") == []


async def test_changes_are_seen_at_the_next_look(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    await source.warm()
    (docs / "returns.md").write_text("# Shop\n## Returns\nNo returns of hats.\n")
    (docs / "new.md").write_text("# Repairs\nHats are mended.\n")
    (docs / "shipping.txt").unlink()

    before = await found(source, "hats")
    clock.now += 1.0
    after = await found(source, "hats")

    assert before == []
    assert after == ["new.md#repairs", "returns.md#returns"]
    assert await found(source, "free shipping") == []


async def test_only_files_that_changed_are_read(
    source: FolderFiles, docs: Path, clock: ManualClock, reader: Reader
) -> None:
    await source.warm()
    clock.now += 1.0
    await source.warm()
    (docs / "returns.md").write_text("# Other\ntext\n")
    clock.now += 1.0
    await source.warm()

    assert reader.names == ["returns.md", "shipping.txt", "returns.md"]


async def test_a_touched_file_keeps_its_chunks(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    await source.warm()
    os.utime(docs / "returns.md", ns=(1, 1))
    clock.now += 1.0

    assert await found(source, "return days") == ["returns.md#returns"]


async def test_the_folder_is_looked_at_once_a_second_at_most(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    await source.warm()
    (docs / "new.md").write_text("# Repairs\nHats are mended.\n")

    clock.now += 0.99
    assert await found(source, "hats") == []
    clock.now += 0.02
    assert await found(source, "hats") == ["new.md#repairs"]


async def test_what_is_passed_over_is_counted(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    (docs / ".hidden").write_text("x")
    (docs / "picture.png").write_bytes(b"\x89PNG\0")

    await source.warm()
    first = dict(source.skipped)
    (docs / "picture.png").write_text("now it is text about hats")
    clock.now += 1.0

    assert await found(source, "hats") == ["picture.png#1"]
    assert first == {"hidden": 1, "binary": 1}
    assert dict(source.skipped) == {"hidden": 1}


async def test_a_folder_that_went_away_fails_until_it_is_back(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    await source.warm()
    moved = docs.with_name("moved")
    os.rename(docs, moved)

    clock.now += 1.0
    for _ in range(2):
        with pytest.raises(StoreFailed, match="store docs failed at find"):
            await found(source, "return days")
    os.rename(moved, docs)

    assert await found(source, "return days") == ["returns.md#returns"]


async def test_an_emptied_folder_answers_with_nothing(
    source: FolderFiles, docs: Path, clock: ManualClock
) -> None:
    await source.warm()
    (docs / "returns.md").unlink()
    (docs / "shipping.txt").unlink()
    clock.now += 1.0

    assert await found(source, "return days") == []


async def test_an_index_in_a_file_is_used_by_the_next_process(
    open_source: Open, tmp_path: Path, reader: Reader
) -> None:
    first = open_source(index=tmp_path / "docs.db")
    await first.warm()
    await first.close()
    reader.names.clear()

    second = open_source(index=tmp_path / "docs.db")

    assert await found(second, "return days") == ["returns.md#returns"]
    assert reader.names == []


async def test_a_broken_index_is_a_failure_of_the_source(
    open_source: Open, tmp_path: Path
) -> None:
    (tmp_path / "docs.db").write_text("no database" * 100)

    with pytest.raises(StoreFailed) as caught:
        await open_source(index=tmp_path / "docs.db").warm()

    assert isinstance(caught.value.__cause__, sqlite3.Error)
    assert (caught.value.store, caught.value.operation) == ("docs", "warm")


async def test_a_failure_in_the_middle_leaves_the_index_as_it_was(
    source: FolderFiles, docs: Path, clock: ManualClock, reader: Reader
) -> None:
    await source.warm()
    (docs / "a.md").write_text("# Hats\nAll about hats.\n")
    (docs / "b.md").write_text("# Coats\nAll about coats.\n")

    reader.failing = "b.md"
    clock.now += 1.0
    with pytest.raises(StoreFailed):
        await found(source, "hats")
    reader.failing = ""
    reader.names.clear()

    assert await found(source, "hats coats") == ["a.md#hats", "b.md#coats"]
    assert reader.names == ["a.md", "b.md"]


async def test_the_event_loop_runs_on_while_the_folder_is_read(
    source: FolderFiles, reader: Reader
) -> None:
    reader.hold()
    async with asyncio.TaskGroup() as group:
        finding = group.create_task(found(source, "return days"))
        await reader.is_reading.wait()
        is_done_early = finding.done()
        reader.release()

    assert not is_done_early
    assert finding.result() == ["returns.md#returns"]


async def test_a_cancelled_search_leaves_the_source_usable(
    source: FolderFiles, reader: Reader
) -> None:
    reader.hold()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(found(source, "return days"))
        waiting = group.create_task(found(source, "free shipping"))
        await reader.is_reading.wait()
        running.cancel()
        waiting.cancel()
    reader.release()

    assert running.cancelled()
    assert waiting.cancelled()
    assert await found(source, "return days") == ["returns.md#returns"]


async def test_closing_ends_a_long_first_look_and_its_thread(
    open_source: Open, docs: Path, reader: Reader
) -> None:
    source = open_source(id="closing")
    for number in range(50):
        (docs / f"{number:02}.md").write_text("x")

    reader.hold()
    async with asyncio.TaskGroup() as group:
        group.create_task(source.warm())
        await reader.is_reading.wait()
        group.create_task(source.close())
        await asyncio.sleep(0)
        reader.release()

    assert reader.names == ["00.md"]
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("files-closing")]


async def test_a_closed_source_fails_and_closes_again(source: FolderFiles) -> None:
    await source.warm()
    await source.close()
    await source.close()

    with pytest.raises(StoreFailed):
        await found(source, "return days")


async def held_in_a_first_look(source: FolderFiles, reader: Reader) -> None:
    """Return once the look waits in its second slice."""
    reader.seconds = 1.0
    reader.hold("shipping.txt")
    await source.warm(most_seconds=0.0)
    await reader.is_reading.wait()


async def test_who_asks_during_a_first_look_is_told_and_it_goes_on_by_itself(
    source: FolderFiles, docs: Path, reader: Reader
) -> None:
    (docs / "third.txt").write_text("Hats are mended.\n")
    await held_in_a_first_look(source, reader)

    async with asyncio.TaskGroup() as group:
        asking = group.create_task(attempted(source, "return days"))
        await asyncio.sleep(0)
        reader.release()
    after = await until_ready(source, "hats")

    assert asking.result() == "not_ready"
    assert after == ["third.txt#1"]
    assert reader.names == ["returns.md", "shipping.txt", "third.txt"]


async def attempted(source: FolderFiles, text: str) -> list[str] | str:
    """Return what is found, or why nothing is answered."""
    try:
        return await found(source, text)
    except SourceFailed as fault:
        return fault.reason


async def until_ready(source: FolderFiles, text: str) -> list[str] | str:
    while (answer := await attempted(source, text)) == "not_ready":
        pass
    return answer


async def test_a_required_folder_is_waited_for(
    open_source: Open, reader: Reader
) -> None:
    reader.seconds = 1.0
    source = open_source(required=True)
    await source.warm(most_seconds=0.0)

    assert reader.names == ["returns.md", "shipping.txt"]
    assert await found(source, "return days") == ["returns.md#returns"]


async def test_a_look_that_is_not_waited_for_any_more_goes_on(
    source: FolderFiles, reader: Reader
) -> None:
    reader.seconds = 1.0
    reader.hold("returns.md")
    async with asyncio.TaskGroup() as group:
        warming = group.create_task(source.warm())
        await reader.is_reading.wait()
        warming.cancel()
    reader.release()

    assert await until_ready(source, "return days") == ["returns.md#returns"]


async def test_a_fault_after_the_first_slice_is_told_to_who_asks(
    source: FolderFiles, docs: Path, reader: Reader
) -> None:
    reader.failing = "third.txt"
    (docs / "third.txt").write_text("Hats are mended.\n")
    await held_in_a_first_look(source, reader)
    reader.release()

    reader.seconds = 0.0
    with pytest.raises(StoreFailed):
        await until_ready(source, "hats")
    reader.failing = ""

    assert await found(source, "hats") == ["third.txt#1"]


async def test_what_is_ignored_is_not_found(open_source: Open) -> None:
    source = open_source(ignore=["*.txt"])

    assert await found(source, "free shipping") == []
    assert await found(source, "return days") == ["returns.md#returns"]
    assert dict(source.skipped) == {"ignored": 1}


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    source: FolderFiles, docs: Path, clock: ManualClock, reader: Reader
) -> None:
    reader.hold()
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(source.warm())
        await reader.is_reading.wait()
        (docs / "returns.md").write_text("# Shop\n## Hats\nWe sell hats, many.\n")
        reader.release()
    assert looking.done()
    clock.now += 1.0

    assert await found(source, "hats many") == ["returns.md#hats"]
