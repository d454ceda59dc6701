"""What a process that serves asks of the system and of Python, as it loads and then."""

import contextlib
import ctypes
import gc
import resource
import sys

# From malloc.h; sizes are plain ints there.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_HAND_OVER_SECONDS = 0.0005  # Twenty times in a slice of 10 ms: far from costing much.
_RARELY_OBJECTS = 10_000
_KEPT_BYTES = 32 * 1024 * 1024  # The most that glibc takes.


def tune_process() -> None:
    """Make collector and allocator calm, the limit on files high, threads polite."""
    calm_collector()
    calm_allocator()
    raise_file_limit()
    hand_over_promptly()


def load_calmly() -> None:
    """Let the collector rest while a program is loaded: all of that stays for good.

    Measured: its passes took a twentieth of a start's time. With none at all, or one in
    100,000 objects, an idle process is half a megabyte larger.
    """
    gc.set_threshold(_RARELY_OBJECTS)


def raise_file_limit() -> None:
    """Allow as many open files as the system does: each connection is one.

    The usual soft limit of 1,024 is there for programs that use select(2).
    """
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def hand_over_promptly() -> None:
    """Let the event loop have the interpreter soon after it asks for it.

    Threads of ours write spans and search documents; with Python's own 5 ms each
    request that comes meanwhile waits that long at every turn of the loop.
    """
    sys.setswitchinterval(_HAND_OVER_SECONDS)


def calm_allocator() -> None:
    """Keep large blocks that were given back: glibc maps and clears each anew.

    Measured: 0.75 of the floor's CPU instead of 0.88 for bodies of 1 MB. Elsewhere
    than on glibc there is nothing to do.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option in (_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD):
            mallopt(option, _KEPT_BYTES)


def calm_collector() -> None:
    """Make the cyclic collector rare: what is here now stays for good."""
    gc.collect()
    gc.freeze()
    # Measured: default thresholds cost a pass over all tracked objects every few calls.
    # A pass is a pause for all that is in flight: 50,000 objects took 20 to 30 ms.
    gc.set_threshold(_RARELY_OBJECTS, 250, 50)
