"""What a model's name says about how it behaves.

Rules:
- Claude names are read as family and version; any other name acts like the newest.
- Names that start with `fake` carry behaviours as words after dashes, in any order:
  `tools` (calls the first tool on fresh user text; `tools-3` calls three at once),
  `thinking`, `slow`, `cut`, `blank`, `length`, `refusal`, and `error-STATUS`.
"""

import re

_NEWER = re.compile(
    r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:[-.](\d{1,2}))?(?!\d)"
)
_OLDER = re.compile(r"claude-(?:instant|[123](?:\D|$))")
_NO_PREFILL_SINCE = {"opus": (4, 6), "sonnet": (4, 6), "haiku": (5, 0)}
_SYSTEM_TURNS_SINCE = {"opus": (4, 8), "fable": (5, 0), "mythos": (5, 0)}
_NEWEST = (99, 0)


def refuses_prefill(model: str) -> bool:
    """Whether the conversation must not end with an assistant message."""
    family, version = _read_name(model)
    return version >= _NO_PREFILL_SINCE.get(family, (5, 0))


def takes_system_turns(model: str) -> bool:
    """Whether a system message may stand inside the conversation."""
    family, version = _read_name(model)
    return not family or version >= _SYSTEM_TURNS_SINCE.get(family, (100, 0))


def reserves_output(model: str) -> bool:
    """Whether input plus requested output must fit the window (before 4.5)."""
    return _read_name(model)[1] < (4, 5)


def behaviours(model: str) -> dict[str, int]:
    """Return the behaviour words of a fake model, each with its number or 0."""
    if not model.startswith("fake"):
        return {}
    found: dict[str, int] = {}
    last = ""
    for piece in model.split("-")[1:]:
        if piece.isdigit() and last:
            found[last] = int(piece)
        else:
            last = piece
            found[piece] = 0
    return found


def _read_name(model: str) -> tuple[str, tuple[int, int]]:
    named = _NEWER.search(model)
    if named is not None:
        return named[1], (int(named[2]), int(named[3] or 0))
    if _OLDER.search(model):
        return "old", (3, 0)
    return "", _NEWEST
