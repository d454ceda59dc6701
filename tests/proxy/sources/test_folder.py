import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from deuz_proxy.sources.folder import (
    BINARY,
    GENERATED,
    HIDDEN,
    IGNORED,
    LARGE,
    MOST_FILE_BYTES,
    MOST_FOLDERS_DEEP,
    MOST_TOTAL_BYTES,
    OUTSIDE,
    TOO_MANY,
    UNREADABLE,
    Found,
    NotText,
    list_folder,
    read_text,
)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    return made


def write(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def names(docs: Path) -> list[str]:
    return [found.name for found in list_folder(docs).files]


def only(docs: Path) -> Found:
    (found,) = list_folder(docs).files
    return found


def reason(found: Found) -> str:
    with pytest.raises(NotText) as caught:
        read_text(found)
    return caught.value.reason


def test_files_are_listed_by_name_with_their_folders(docs: Path) -> None:
    for name in ("b.md", "a/z.txt", "a/b/c.py", "c"):
        write(docs / name)

    assert names(docs) == ["a/b/c.py", "a/z.txt", "b.md", "c"]


def test_a_listed_file_carries_its_stamp(docs: Path) -> None:
    status = write(docs / "a.md", "hello").stat()

    found = only(docs)

    assert (found.modified_ns, found.size_bytes) == (status.st_mtime_ns, 5)
    assert read_text(found) == "hello"


def test_hidden_and_generated_ones_are_counted_not_listed(docs: Path) -> None:
    write(docs / ".env", "SECRET=1")
    write(docs / ".git" / "config")
    write(docs / "node_modules" / "x.js")
    write(docs / "a.md")

    listing = list_folder(docs)

    assert [found.name for found in listing.files] == ["a.md"]
    assert listing.skipped == {HIDDEN: 2, GENERATED: 1}


def test_a_file_over_the_limit_is_counted(docs: Path) -> None:
    write(docs / "a.md", "x" * MOST_FILE_BYTES)
    write(docs / "b.md", "x" * (MOST_FILE_BYTES + 1))

    listing = list_folder(docs)

    assert [found.name for found in listing.files] == ["a.md"]
    assert listing.skipped == {LARGE: 1}


def test_links_are_followed_inside_the_folder_only(docs: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret.md", "secret")
    write(docs / "a.md", "inside")
    (docs / "out.md").symlink_to(tmp_path / "secret.md")
    (docs / "up.md").symlink_to("../secret.md")
    (docs / "in.md").symlink_to("a.md")

    listing = list_folder(docs)

    assert [found.name for found in listing.files] == ["a.md", "in.md"]
    assert read_text(listing.files[1]) == "inside"
    assert listing.skipped == {OUTSIDE: 2}


def test_a_neighbour_whose_path_begins_alike_is_outside(tmp_path: Path) -> None:
    write(tmp_path / "docs-secret" / "a.md")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "l.md").symlink_to(tmp_path / "docs-secret" / "a.md")

    assert list_folder(tmp_path / "docs").skipped == {OUTSIDE: 1}


def test_a_mounted_config_map_is_read_through_its_links(docs: Path) -> None:
    write(docs / "..2026_01" / "a.md", "mounted")
    (docs / "..data").symlink_to("..2026_01")
    (docs / "a.md").symlink_to("..data/a.md")

    assert names(docs) == ["a.md"]
    assert read_text(only(docs)) == "mounted"


def test_linked_folders_broken_links_and_circles_are_not_followed(docs: Path) -> None:
    write(docs / "a" / "x.md")
    (docs / "b").symlink_to("a")
    (docs / "gone.md").symlink_to("nowhere.md")
    (docs / "one.md").symlink_to("two.md")
    (docs / "two.md").symlink_to("one.md")

    listing = list_folder(docs)

    assert [found.name for found in listing.files] == ["a/x.md"]
    assert listing.skipped == {UNREADABLE: 4}


def test_a_pipe_is_neither_listed_nor_waited_for(docs: Path) -> None:
    os.mkfifo(docs / "pipe.md")

    listing = list_folder(docs)

    assert listing.files == []
    assert listing.skipped == {UNREADABLE: 1}


def test_a_name_that_is_not_text_is_counted(docs: Path) -> None:
    os.close(os.open(os.fsencode(docs) + b"/\xff.md", os.O_CREAT))

    listing = list_folder(docs)

    assert listing.files == []
    assert listing.skipped == {UNREADABLE: 1}


def test_an_inner_folder_that_goes_away_hides_no_other(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(docs / "a" / "x.md")
    write(docs / "b" / "y.md")
    scan = os.scandir

    def vanishing(path: Path) -> object:
        if Path(path).name == "a":
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    listing = list_folder(docs)

    assert [found.name for found in listing.files] == ["b/y.md"]
    assert listing.skipped == {UNREADABLE: 1}


class _Untold:
    """An entry whose kind its folder does not tell, and that is closed to who asks."""

    def __init__(self, name: str) -> None:
        self.name = name

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        assert not follow_symlinks
        raise PermissionError(self.name)


def test_what_is_passed_over_by_name_is_not_asked_what_it_is(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(docs / "a.md")
    with os.scandir(docs) as scan:
        held = [*scan, _Untold(".closed"), _Untold("closed.log")]
    monkeypatch.setattr(os, "scandir", lambda _: nullcontext(held))

    listing = list_folder(docs, ignored=["*.log"])

    assert [found.name for found in listing.files] == ["a.md"]
    assert listing.skipped == {HIDDEN: 1, IGNORED: 1}


def test_files_beyond_the_most_are_counted(docs: Path) -> None:
    for name in "abcd":
        write(docs / name)

    listing = list_folder(docs, most_files=2)

    assert [found.name for found in listing.files] == ["a", "b"]
    assert listing.skipped == {TOO_MANY: 2}


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "file")

    with pytest.raises(FileNotFoundError):
        list_folder(tmp_path / "nowhere")
    with pytest.raises(NotADirectoryError):
        list_folder(tmp_path / "file")


@pytest.mark.parametrize("content", [b"a\0b", b"\xff\xfea\0", b"\x89PNG", b"\xc3("])
def test_what_is_not_utf8_text_is_binary(docs: Path, content: bytes) -> None:
    (docs / "a").write_bytes(content)

    assert reason(only(docs)) == BINARY


def test_a_byte_order_mark_is_no_part_of_the_text(docs: Path) -> None:
    (docs / "a").write_bytes(b"\xef\xbb\xbfhello")

    assert read_text(only(docs)) == "hello"


def test_a_file_that_went_away_or_grew_since_it_was_listed(docs: Path) -> None:
    path = write(docs / "a")
    found = only(docs)

    path.unlink()
    gone = reason(found)
    write(path, "x" * (MOST_FILE_BYTES + 1))
    grown = reason(found)

    assert (gone, grown) == (UNREADABLE, LARGE)


def test_a_link_put_in_a_files_place_since_then_is_not_followed(
    docs: Path, tmp_path: Path
) -> None:
    path = write(docs / "a")
    found = only(docs)
    path.unlink()
    path.symlink_to(write(tmp_path / "secret"))

    assert reason(found) == UNREADABLE


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("*.log", ["a.md", "inner/b.md", "vendor/c.md"]),
        ("vendor", ["a.log", "a.md", "inner/a.log", "inner/b.md"]),
        ("vendor/", ["a.log", "a.md", "inner/a.log", "inner/b.md"]),
        ("inner/*.log", ["a.log", "a.md", "inner/b.md", "vendor/c.md"]),
        ("/inner/a.log", ["a.log", "a.md", "inner/b.md", "vendor/c.md"]),
        ("?.md", ["a.log", "inner/a.log"]),
        ("*", []),
    ],
)
def test_what_is_ignored_by_name_or_path_is_counted_not_listed(
    tmp_path: Path, pattern: str, left: list[str]
) -> None:
    for name in ("a.md", "a.log", "inner/a.log", "inner/b.md", "vendor/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")

    listing = list_folder(tmp_path, ignored=[pattern])

    assert [found.name for found in listing.files] == left
    assert listing.skipped["ignored"] > 0


def test_folders_are_walked_down_to_a_bound(tmp_path: Path) -> None:
    inner = tmp_path
    for _ in range(MOST_FOLDERS_DEEP + 3):
        inner = inner / "d"
        inner.mkdir()
        (inner / "a.md").write_text("x")

    listing = list_folder(tmp_path)

    assert len(listing.files) == MOST_FOLDERS_DEEP
    assert listing.skipped == {"too_deep": 1}


def test_files_together_over_the_bound_are_counted(tmp_path: Path) -> None:
    most = MOST_FILE_BYTES
    for number in range(MOST_TOTAL_BYTES // most + 2):
        # Sparse: they take no room on the disk.
        with (tmp_path / f"{number:04}.txt").open("wb") as file:
            file.truncate(most)

    listing = list_folder(tmp_path)

    assert len(listing.files) == MOST_TOTAL_BYTES // most
    assert listing.skipped == {"too_many": 2}


def test_a_file_that_is_closed_to_us_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("x")
    (found,) = list_folder(tmp_path).files
    Path(found.real).unlink()

    with pytest.raises(NotText, match=UNREADABLE):
        read_text(found)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "latin-1", "shift_jis"])
def test_text_in_another_encoding_is_passed_over_not_guessed(
    tmp_path: Path, encoding: str
) -> None:
    word = "caf\u00e9" if encoding == "latin-1" else "\u6771\u4eac"
    (tmp_path / "a.txt").write_bytes(word.encode(encoding))
    (found,) = list_folder(tmp_path).files

    with pytest.raises(NotText, match=BINARY):
        read_text(found)
