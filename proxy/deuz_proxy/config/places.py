"""Files that a sidecar will open: whether it can, told without making any.

Rules:
- The same holds here as where they are opened (`private_files`, `stores`): the file is
  made if it is not there, and so is the last folder of its path.
- A file is one store's alone: two would mix what they keep, or lock each other out.
- What differs from user to user is told for the one who asks.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from deuz_proxy.config.ledger import file_of, url_fault
from deuz_proxy.config.memory import BESIDE_LEDGER, SQLITE
from deuz_proxy.config.nodes import Document, Place, Tree
from deuz_proxy.config.values import path_below

_LEDGER: Place = ("ledger", "url")
_MEMORY: Place = ("memory", "url")
_HEADER = b"SQLite format 3\0"
_PRIVATE = 0o600


def check_places(document: Document, folder: Path) -> Iterator[tuple[Place, str]]:
    """Yield what is wrong with the files that the document's places name."""
    seen: dict[Path, Place] = {}
    for place, named in _named_files(document):
        try:
            path = path_below(folder, Path(named)).resolve()
            fault = file_fault(path)
        except (OSError, RuntimeError, ValueError):
            yield place, "is not a path that can be followed (allowed: a file)"
            continue
        if path in seen:
            first = document.line(seen[path])
            yield place, f"is the file of a second store, first on line {first}"
        elif fault is not None:
            yield place, fault
        seen.setdefault(path, place)
        if place == _LEDGER and not document.at(_MEMORY):
            seen.setdefault(path.with_name(BESIDE_LEDGER), place)
            if path.name == BESIDE_LEDGER:
                yield place, "is the file of memory without a url (allowed: another)"


def file_fault(path: Path) -> str | None:
    """Return why a store cannot be kept in this file; None if it can."""
    folder = path.parent
    if not folder.exists() and folder.parent.is_dir():
        # It will be made.
        folder = folder.parent
    if not folder.is_dir():
        return (
            "is in a folder that does not exist (allowed: a file in one that does; "
            "an absolute path in a URL has four slashes)"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        return "is in a folder that cannot be written (allowed: a file in one that can)"
    return _held_fault(path) if path.exists() else None


def _held_fault(path: Path) -> str | None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        return "is no file (allowed: a file; it is made if it is not there)"
    is_ours = os.geteuid() in (0, found.st_uid)
    is_private = is_ours or stat.S_IMODE(found.st_mode) == _PRIVATE
    if not is_private or not os.access(path, os.R_OK | os.W_OK):
        return "is another user's, or cannot be written (allowed: a file of one's own)"
    with path.open("rb") as file:
        start = file.read(len(_HEADER))
    if start not in (b"", _HEADER):
        return "holds something else already (allowed: a file of this store, or a new)"
    return None


def _named_files(document: Document) -> Iterator[tuple[Place, str]]:
    url = document.at(_LEDGER)
    if isinstance(url, str) and url_fault(url) is None and (file := file_of(url)):
        yield _LEDGER, str(file)
    yield from _sqlite(_MEMORY, document.at(_MEMORY))
    sources = document.at(("context", "sources"))
    for index, source in enumerate(sources if isinstance(sources, list) else ()):
        place: Place = ("context", "sources", index)
        if not isinstance(source, dict):
            continue
        if source.get("type") == "transcript":
            yield from _sqlite((*place, "url"), source.get("url"))
        named = source.get("index")
        if source.get("type") == "files" and isinstance(named, str) and named:
            yield (*place, "index"), named


def _sqlite(place: Place, url: Tree) -> Iterator[tuple[Place, str]]:
    if isinstance(url, str) and url.startswith(SQLITE) and url != SQLITE:
        yield place, url.removeprefix(SQLITE)
