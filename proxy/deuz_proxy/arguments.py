"""Values on the command line: what each may be, and what is said of one that is not.

Rules:
- A value that is refused is shown, with what is allowed.
"""

import argparse

_MOST_WORKERS = 64  # More than the one keeper could listen to.
_LARGEST_WINDOW = 1_000_000_000


def address(text: str) -> str:
    """Return the address, `HOST:PORT` or `[IPV6]:PORT`.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    # Not at the top: pydantic comes along, which `exec -h` does not need.
    from deuz_proxy.config.values import split_address  # noqa: PLC0415

    try:
        split_address(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{text!r} {fault}") from fault
    return text


def worker_count(text: str) -> int:
    """Return how many workers.

    Raises:
        argparse.ArgumentTypeError: it is no number of workers.
    """
    return _whole_number(text, _MOST_WORKERS)


def window_tokens(text: str) -> int:
    """Return how many tokens fit.

    Raises:
        argparse.ArgumentTypeError: it is no number of tokens.
    """
    return _whole_number(text, _LARGEST_WINDOW)


def _whole_number(text: str, most: int) -> int:
    # Other digits than 0 to 9 are decimals, too.
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:20]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {most}")
    return int(text)
