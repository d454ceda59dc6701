"""What commands say and are given, whatever stands at the other end of the streams.

Rules:
- Any text can be printed: what the terminal's encoding lacks is written as an escape.
- A reader that left ends a command that prints a result, and none that serves.
- A stream may be closed from the start; then it is empty, or nobody reads it.
"""

import contextlib
import errno
import io
import os
import sys
from typing import TextIO

_CANNOT_BE_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def prepare_streams() -> None:
    """Let every text be printed, in any locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def read_input() -> bytes:
    """Return all of standard input; nothing where it is closed."""
    return sys.stdin.buffer.read() if sys.stdin is not None else b""


def say(text: str) -> None:
    """Print to standard output, at once."""
    print(text, flush=True)


def say_if_heard(text: str) -> None:
    """Print to standard output, for a command that goes on if nobody reads it."""
    _try(text, sys.stdout)


def say_aside_if_heard(text: str) -> None:
    """Print to standard error, for a command that goes on if nobody reads it."""
    _try(text, sys.stderr)


def flush_output() -> None:
    """Write what is still to be written, so that a failure is noticed here.

    Raises:
        OSError: it cannot be written.
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def drop_output() -> None:
    """Write nothing more: what is left would fail again, at the process's end."""
    _drop(sys.stdout)


def output_words(fault: OSError) -> str | None:
    """Return what is wrong with the output; None where that is not what failed."""
    if fault.filename is not None or fault.errno not in _CANNOT_BE_WRITTEN:
        return None
    return f"the output cannot be written: {(fault.strerror or '').lower()}"


def _try(text: str, stream: TextIO | None) -> None:
    try:
        print(text, file=stream, flush=True)
    except OSError:
        _drop(stream)


def _drop(stream: TextIO | None) -> None:
    # A stream that a test put there has no number.
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
