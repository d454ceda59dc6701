"""Careful reading of decoded JSON whose shape the client chose.

Rules:
- Never raises on a wrong type: a wrong type reads as absent; the rules complain.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from deuz_proxy.demo.provider.exchange import Json, Refusal


def objects(value: Any) -> list[Json]:
    """Return the objects of a list, or nothing."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def numbered(value: Any) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a list with their places in it."""
    if isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, dict):
                yield place, item


def mapping(value: Any) -> Json:
    """Return the object, or an empty one."""
    return value if isinstance(value, dict) else {}


def word(value: Any) -> str:
    """Return the string, or an empty one."""
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """Return the integer; a boolean is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def compact(value: Any) -> str:
    """Return JSON without spaces, keys in the order they came in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def first_refusal(
    checks: tuple[Callable[..., Refusal | None], ...], *subjects: Any
) -> Refusal | None:
    """Return what the first failing check says."""
    for check in checks:
        refusal = check(*subjects)
        if refusal is not None:
            return refusal
    return None
