"""What a folder holds that can be searched, and how each file is read safely.

Rules:
- Hidden files and folders, what tools write for themselves, what is ignored by name,
  binaries, files over the limits, links that lead outside, and whatever is not a plain
  file are passed over and counted by reason.
- A pattern without `/` is for a file's or folder's name, one with `/` for the path.
- Names are relative, with `/`, in a fixed order; a link counts under its own name.
- A folder that is missing is an error, never an empty list: it would empty the index.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path

import msgspec

MOST_FILE_BYTES = 2_000_000
MOST_FILES = 20_000
# Of all files together: the index of a folder may live in memory.
MOST_TOTAL_BYTES = 512_000_000
MOST_FOLDERS_DEEP = 64
# Half a millisecond at most.
_ENTRIES_A_STEP = 32
# Written by tools for tools; a folder of code drowns in them.
_GENERATED = ("node_modules", "__pycache__")
_name_of = attrgetter("name")

HIDDEN = "hidden"
GENERATED = "generated"
BINARY = "binary"
LARGE = "large"
OUTSIDE = "outside"
UNREADABLE = "unreadable"
TOO_MANY = "too_many"
TOO_DEEP = "too_deep"
IGNORED = "ignored"


class Found(msgspec.Struct, frozen=True, gc=False):
    """A file that may be read: its name, where it really is, and its stamp."""

    name: str
    real: str
    modified_ns: int
    size_bytes: int


@dataclass(slots=True)
class Listing:
    """What one look at a folder gave."""

    files: list[Found] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


class NotText(Exception):
    """A file is not UTF-8 text; `reason` is a key of the skipped counts."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"file is passed over: {reason}")
        self.reason = reason


def list_folder(
    folder: Path, *, most_files: int = MOST_FILES, ignored: Sequence[str] = ()
) -> Listing:
    """Return the folder's files by name, the first `most_files` of them.

    `ignored` are patterns with `*` and `?`; what one fits is not looked into.

    Raises:
        OSError: the folder itself cannot be read.
    """
    listing = Listing()
    for _ in fill_listing(listing, folder, most_files=most_files, ignored=ignored):
        pass
    return listing


def fill_listing(
    listing: Listing,
    folder: Path,
    *,
    most_files: int = MOST_FILES,
    ignored: Sequence[str] = (),
) -> Iterator[None]:
    """Do as `list_folder` into the listing, in steps, for who must stop between.

    Raises:
        OSError: the folder itself cannot be read.
    """
    root = folder.resolve(strict=True)
    walk = _Walk(listing, root, tuple(ignored), most_files=most_files)
    yield from walk.through(str(root), "")


def read_text(found: Found) -> str:
    """Return the file's text.

    Raises:
        NotText: it cannot be read, or is not UTF-8 text, or has grown too large.
    """
    try:
        # Resolved before; a link put in its place since then is not followed.
        descriptor = os.open(found.real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise NotText(UNREADABLE) from error
    if len(content) > MOST_FILE_BYTES:
        raise NotText(LARGE)
    if b"\0" in content:
        raise NotText(BINARY)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotText(BINARY) from error


class _Walk:
    """One way through a folder, written into a listing. Mutable; used once."""

    def __init__(
        self, listing: Listing, root: Path, ignored: tuple[str, ...], *, most_files: int
    ) -> None:
        self._files = listing.files
        self._skipped = listing.skipped
        self._root = root
        self._ignored = ignored
        self._most_files = most_files
        self._left_bytes = MOST_TOTAL_BYTES
        self._steps = 0

    def through(self, folder: str, prefix: str) -> Iterator[None]:
        """Take what the folder holds, by name; stop at each so many entries."""
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=_name_of)
        for entry in entries:
            self._steps += 1
            if self._steps % _ENTRIES_A_STEP == 0:
                yield
            own = entry.name
            name = prefix + own
            # What its name tells is passed over unasked: to ask may fail.
            reason = self._reason_by_name(own, name)
            is_folder = not reason and entry.is_dir(follow_symlinks=False)
            if is_folder:
                reason = _reason_against_folder(own, name)
            if reason:
                self._skipped[reason] += 1
            elif is_folder:
                yield from self._inner(entry.path, f"{name}/")
            else:
                self._take(entry, name)

    def _reason_by_name(self, own: str, name: str) -> str:
        if own.startswith("."):
            return HIDDEN
        is_ignored = self._ignored and any(_fits(p, own, name) for p in self._ignored)
        return IGNORED if is_ignored else ""

    def _inner(self, folder: str, prefix: str) -> Iterator[None]:
        try:
            yield from self.through(folder, prefix)
        except OSError:
            # One folder that is closed to us, or just went, does not hide the others.
            self._skipped[UNREADABLE] += 1

    def _take(self, entry: "os.DirEntry[str]", name: str) -> None:
        real, reason = entry.path, ""
        try:
            # Mounted config maps are made of links; inside the folder they are files.
            # What is no link is where the walk found it.
            if entry.is_symlink():
                path = Path(real).resolve(strict=True)
                real = str(path)
                reason = "" if path.is_relative_to(self._root) else OUTSIDE
            status = entry.stat()
        except (OSError, RuntimeError):
            # RuntimeError: links in a circle, before Python 3.13.
            self._skipped[UNREADABLE] += 1
            return
        if not reason and not stat.S_ISREG(status.st_mode):
            reason = UNREADABLE
        elif not reason and status.st_size > MOST_FILE_BYTES:
            reason = LARGE
        if reason or not _is_utf8(name):
            self._skipped[reason or UNREADABLE] += 1
            return
        self._left_bytes -= status.st_size
        if len(self._files) < self._most_files and self._left_bytes >= 0:
            found = Found(name, real, status.st_mtime_ns, status.st_size)
            self._files.append(found)
        else:
            self._skipped[TOO_MANY] += 1


def _reason_against_folder(own: str, name: str) -> str:
    if own in _GENERATED:
        return GENERATED
    # Each folder is a frame of this walk.
    return TOO_DEEP if name.count("/") >= MOST_FOLDERS_DEEP else ""


def _fits(pattern: str, name: str, path: str) -> bool:
    bare = pattern.strip("/")
    return fnmatchcase(path if "/" in bare else name, bare)


def _is_utf8(name: str) -> bool:
    """Return whether the name can be an id; on disk it may be any bytes."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)
