"""What a model found wrong with a body, in words for whoever sent it.

Rules:
- The words are ours: what is wrong, and what is allowed. The library's own are for
  those who write models, and change with its versions.
- No fault repeats a value.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from deuz_proxy.config.mistakes import unknown_key

_Context = Mapping[str, Any]
# How pydantic names the branches of a union: no place a client knows.
_BRANCHES = ("constrained-float", "float", "datetime")
_NO_TIME = (
    "is not a time (allowed: Unix seconds from 0 to 1000000000000, or a time with its "
    "zone, as 2030-01-31T12:00:00Z)"
)
_UNKNOWN = "is not valid (allowed: what /api/v1/openapi.json says)"


def told_faults(
    error: ValidationError, schema: Mapping[str, Any], *, where: str
) -> list[tuple[str, str]]:
    """Return every fault of a body once: its place, and what is wrong there.

    `schema` is what the client may know of the model: allowed keys are told from it.
    """
    faults = []
    for each in error.errors(include_url=False, include_input=False):
        steps = [str(step) for step in each["loc"] if step not in _BRANCHES]
        faults.append((".".join((where, *steps)), _words(each, schema)))
    return list(dict.fromkeys(faults))


def _words(error: ErrorDetails, schema: Mapping[str, Any]) -> str:
    kind, place = error["type"], error["loc"]
    if place[-1:] and place[-1] in _BRANCHES:
        return _NO_TIME
    if kind == "extra_forbidden":
        return unknown_key(place, schema)
    phrase = _PHRASES.get(kind)
    if phrase is not None:
        return phrase(error.get("ctx", {}))
    return next((text for start, text in _TYPES if kind.startswith(start)), _UNKNOWN)


def _not_json(context: _Context) -> str:
    found = re.search(r"line (\d+) column (\d+)", str(context.get("error")))
    at = f": it breaks at line {found[1]}, column {found[2]}" if found else ""
    return f"is not JSON{at} (allowed: one object)"


def _number(limit: float) -> str:
    return f"{int(limit)}" if limit == int(limit) else f"{limit}"


def _too_long(unit: str) -> Callable[[_Context], str]:
    return lambda context: (
        f"is too long (allowed: at most {context['max_length']} {unit})"
    )


def _too_short(unit: str) -> Callable[[_Context], str]:
    return lambda context: (
        f"is too short (allowed: {context['min_length']} {unit} or more)"
    )


_PHRASES: Mapping[str, Callable[[_Context], str]] = {
    "json_invalid": _not_json,
    "missing": lambda _: "is required",
    "value_error": lambda context: str(context["error"]),
    "string_too_long": _too_long("characters"),
    "string_too_short": _too_short("character"),
    "too_long": _too_long("items"),
    "too_short": _too_short("item"),
    "greater_than_equal": lambda context: (
        f"is too small (allowed: {_number(context['ge'])} or more)"
    ),
    "less_than_equal": lambda context: (
        f"is too large (allowed: {_number(context['le'])} or less)"
    ),
}
_TYPES: Sequence[tuple[str, str]] = (
    ("string_unicode", "is not Unicode text (allowed: no half of a surrogate pair)"),
    ("string_", "is not text (allowed: a string)"),
    ("bool_", "is not a switch (allowed: true, false)"),
    ("int_", "is not a whole number (allowed: 0, 1, 2, …)"),
    ("float_", "is not a number (allowed: 1, 2.5, …)"),
    ("finite_number", "is not a number (allowed: 1, 2.5, …)"),
    ("list_", "is not a list (allowed: [a, b])"),
    ("dict_", "is not an object (allowed: {…})"),
    ("model_", "is not an object (allowed: {…})"),
)
