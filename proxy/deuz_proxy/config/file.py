"""The config file as something that changes: told once per change, loaded on demand.

Rules:
- Loading never touches what is in force; the application swaps it, or keeps it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config


class _Stamp(NamedTuple):
    """What is looked at before the content is: cheap enough for every second."""

    changed_ns: int
    modified_ns: int
    inode: int
    size_bytes: int


class ConfigFile:
    """A config file and what it last looked like. For one task at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = _stamp(path)
        self._digest = _digest(path)

    def has_changed(self) -> bool:
        """Return whether the content differs from the last time; true once a change.

        A file that went away has changed, once; touching it is no change.
        """
        # The stamp is taken first: a write in between shows at the next look.
        stamp = _stamp(self.path)
        if stamp == self._stamp:
            return False
        digest = _digest(self.path)
        is_other = digest != self._digest
        self._stamp, self._digest = stamp, digest
        return is_other

    def load(self, environ: Mapping[str, str]) -> Config:
        """Return the file's config.

        Raises:
            ConfigInvalid: the file has mistakes; what is in force should stay.
        """
        return load_config(self.path, environ)


def _stamp(path: Path) -> _Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _Stamp(found.st_ctime_ns, found.st_mtime_ns, found.st_ino, found.st_size)


def _digest(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
