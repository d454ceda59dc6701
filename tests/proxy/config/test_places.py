"""A file that a store cannot be kept in is told by `check`, which makes nothing."""

import os
from pathlib import Path

import pytest

from deuz_proxy.config.load import parse_config
from deuz_proxy.config.places import file_fault
from deuz_proxy.errors import ConfigInvalid

TRANSCRIPT = "context: {{sources: [{{type: transcript, url: 'sqlite:///{}'}}]}}"
FILES = "context: {{sources: [{{type: files, path: '.', index: '{}'}}]}}"
# Each names one file, at the place that is told.
STORES = {
    "ledger.url": "ledger: {{url: 'sqlite:///{}'}}",
    "memory.url": "memory: {{url: 'sqlite:///{}'}}",
    "context.sources[0].url": TRANSCRIPT,
    "context.sources[0].index": FILES,
}


def mistakes(text: str, folder: Path) -> list[str]:
    before = sorted(folder.rglob("*"))
    try:
        parse_config(text, name="c", folder=folder, environ={})
    except ConfigInvalid as fault:
        return str(fault).splitlines()
    finally:
        assert sorted(folder.rglob("*")) == before
    return []


@pytest.mark.parametrize("place", STORES)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no/such/kept.db", "is in a folder that does not exist"),
        ("text/kept.db", "is in a folder that does not exist"),
        ("text", "holds something else already"),
        (".", "is no file"),
        ("~nobody-here/kept.db", "names a home that is not known"),
        ("loop/kept.db", "is not a path that can be followed"),
        ("there.db", ""),
        ("kept.db", ""),
        ("new/kept.db", ""),
    ],
)
def test_a_file_that_cannot_be_opened_is_told_with_its_place(
    tmp_path: Path, place: str, name: str, words: str
) -> None:
    (tmp_path / "text").write_text("not for us")
    (tmp_path / "there.db").touch()
    (tmp_path / "loop").symlink_to("loop")

    told = mistakes(STORES[place].format(name), tmp_path)

    assert [line[: len(f"c:1: {place}: {words}")] for line in told] == (
        [f"c:1: {place}: {words}"] if words else []
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("name", ["closed/kept.db", "mine.db"])
def test_what_this_user_may_not_write_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    (tmp_path / "mine.db").touch(mode=0o400)

    assert "cannot be written" in str(file_fault(tmp_path / name))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "ledger: {url: 'sqlite:///a.db'}\nmemory: {url: 'sqlite:///./a.db'}",
            "c:2: memory.url: is the file of a second store, first on line 1",
        ),
        (
            "memory: {url: 'sqlite:///a.db'}\n" + TRANSCRIPT.format("a.db"),
            "c:2: context.sources[0].url: "
            "is the file of a second store, first on line 1",
        ),
        (
            "ledger: {url: 'sqlite:///a.db'}\n" + FILES.format("memory.db"),
            "c:2: context.sources[0].index: "
            "is the file of a second store, first on line 1",
        ),
        (
            "ledger: {url: 'sqlite:///memory.db'}",
            "c:1: ledger.url: is the file of memory without a url (allowed: another)",
        ),
    ],
)
def test_two_stores_do_not_share_a_file(tmp_path: Path, text: str, told: str) -> None:
    assert mistakes(text, tmp_path) == [told]


def test_a_ledger_may_have_any_name_where_memory_is_elsewhere(tmp_path: Path) -> None:
    text = "ledger: {url: 'sqlite:///memory.db'}\nmemory: {url: 'memory://'}"

    assert mistakes(text, tmp_path) == []
