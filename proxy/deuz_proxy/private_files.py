"""Files that hold what users wrote: they are for their owner alone.

Rules:
- Made before SQLite opens them: they were never open to others. What SQLite puts beside
  a file has its mode.
- A file that is there already is closed to others, too.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

_MODE = 0o600


def make_private(path: Path) -> None:
    """Make the file, if it is not there, and let its owner alone read it.

    The last folder of its path is made, too; more of them are more often a missing
    slash than a wish.

    Raises:
        OSError: its folder is not there, it is no file, or it is somebody else's.
    """
    with suppress(FileNotFoundError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
    # Never opened if it is there: closing it would drop this process's locks on it.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _MODE))
    found = path.stat().st_mode
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "it is no file")
    if stat.S_IMODE(found) != _MODE:
        path.chmod(_MODE)
