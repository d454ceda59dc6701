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
from pathlib import Path

MOST_FILE_BYTES = 2_000_000
MOST_FILES = 20_000
# Of all files together: the index of a folder may live in memory.
MOST_TOTAL_BYTES = 512_000_000
MOST_FOLDERS_DEEP = 64
# Written by tools for tools; a folder of code drowns in them.
_GENERATED = ("node_modules", "__pycache__")

HIDDEN = "hidden"
GENERATED = "generated"
BINARY = "binary"
LARGE = "large"
OUTSIDE = "outside"
UNREADABLE = "unreadable"
TOO_MANY = "too_many"
TOO_DEEP = "too_deep"
IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may be read: its name, where it really is, and its stamp."""

    name: str
    real: Path
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
    """Do as `list_folder` into the listing, file by file, for who must stop between.

    Raises:
        OSError: the folder itself cannot be read.
    """
    root = folder.resolve(strict=True)
    walk = _Walk(listing.skipped, tuple(ignored))
    left_bytes = MOST_TOTAL_BYTES
    for entry, name in walk.entries(root, ""):
        yield
        found = _found(entry, name, root, listing.skipped)
        if found is None:
            continue
        left_bytes -= found.size_bytes
        if len(listing.files) < most_files and left_bytes >= 0:
            listing.files.append(found)
        else:
            listing.skipped[TOO_MANY] += 1


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


@dataclass(frozen=True, slots=True)
class _Walk:
    """One way through a folder; what it passes over is counted."""

    skipped: Counter[str]
    ignored: tuple[str, ...]

    def entries(
        self, folder: Path, prefix: str
    ) -> Iterator[tuple["os.DirEntry[str]", str]]:
        """Return what is no folder, by name."""
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        for entry in entries:
            name = f"{prefix}{entry.name}"
            if reason := self._reason_against(entry, name):
                self.skipped[reason] += 1
            elif entry.is_dir(follow_symlinks=False):
                yield from self._inner(Path(entry.path), f"{name}/")
            else:
                yield entry, name

    def _reason_against(self, entry: "os.DirEntry[str]", name: str) -> str:
        if entry.name.startswith("."):
            return HIDDEN
        if self.ignored and any(
            _fits(pattern, entry.name, name) for pattern in self.ignored
        ):
            return IGNORED
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder and entry.name in _GENERATED:
            return GENERATED
        # Each folder is a frame of this walk.
        is_deep = is_folder and name.count("/") >= MOST_FOLDERS_DEEP
        return TOO_DEEP if is_deep else ""

    def _inner(
        self, folder: Path, prefix: str
    ) -> Iterator[tuple["os.DirEntry[str]", str]]:
        try:
            yield from self.entries(folder, prefix)
        except OSError:
            # One folder that is closed to us, or just went, does not hide the others.
            self.skipped[UNREADABLE] += 1


def _fits(pattern: str, name: str, path: str) -> bool:
    bare = pattern.strip("/")
    return fnmatchcase(path if "/" in bare else name, bare)


def _found(
    entry: "os.DirEntry[str]", name: str, root: Path, skipped: Counter[str]
) -> Found | None:
    try:
        # Mounted config maps are made of links; inside the folder they are files.
        path = Path(entry.path)
        # Only links cost the walk: folders on the way here were none.
        is_link = entry.is_symlink()
        real = path.resolve(strict=True) if is_link else path
        status = entry.stat()
    except (OSError, RuntimeError):
        # RuntimeError: links in a circle, before Python 3.13.
        skipped[UNREADABLE] += 1
        return None
    # What is no link is where the walk found it.
    is_outside = is_link and not real.is_relative_to(root)
    reason = OUTSIDE if is_outside else _reason_against(status)
    if reason or not _is_utf8(name):
        skipped[reason or UNREADABLE] += 1
        return None
    return Found(name, real, status.st_mtime_ns, status.st_size)


def _reason_against(status: os.stat_result) -> str:
    if not stat.S_ISREG(status.st_mode):
        return UNREADABLE
    return LARGE if status.st_size > MOST_FILE_BYTES else ""


def _is_utf8(name: str) -> bool:
    """Return whether the name can be an id; on disk it may be any bytes."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)
