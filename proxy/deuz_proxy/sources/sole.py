"""One process at a time, for work on a file that several have open.

Rules:
- Never waited for: who comes second is told so.
- The system lets go for a process that ended, however it did.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sole_process(path: Path | None) -> Iterator[bool]:
    """Tell for the block's life whether nobody else is in one for this file.

    The mark is a file beside it, which stays. Without a file there is nobody else.

    Raises:
        OSError: the mark cannot be made.
    """
    if path is None:
        yield True
        return
    mark = path.with_name(f"{path.name}-looking")
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(mark, flags, 0o600)
    try:
        yield _is_taken(descriptor)
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
