"""What is wrong with a field, in words of ours, from what the decoder says of it.

Rules:
- The decoder's words are for those who write types, and quote what was given.
- A fault says what is allowed, as far as the field's type tells it.
"""

import re
from typing import Literal, get_args, get_origin

_KIND = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_BOUND = re.compile(r"Expected `(\w+)` (of length )?([<>])=? (\S+)")
_FORM = re.compile(r"Expected `str` matching regex '(.*)'")
_FIELD = re.compile(r"Object (missing required|contains unknown) field `(.*)`")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_NOT_BLANK = r"\\S"


def field_fault(name: str, said: str, expected: object) -> str:
    """Return the fault of a field of this type: its place within it, and the words."""
    what, _, place = said.partition(" - at `")
    inner = place.removeprefix("key in ").removeprefix("$").removesuffix("`")
    return f"{name}{inner}: {_words(what, expected)}"


def _words(said: str, expected: object) -> str:
    if kind := _KIND.fullmatch(said):
        kinds = kind[1].split(" | ")
        return f"is not {' or '.join([_KINDS.get(each, each) for each in kinds])}"
    if bound := _BOUND.fullmatch(said):
        return _bound_words(*bound.groups())
    if form := _FORM.fullmatch(said):
        return _form_words(form[1])
    if field := _FIELD.fullmatch(said):
        is_missing = field[1] == "missing required"
        return f"{field[2]} is missing" if is_missing else f"unknown field {field[2]}"
    words = ", ".join(_choices(expected))
    return f"is not one of the allowed words{words and f' (allowed: {words})'}"


def _bound_words(kind: str, length: str | None, sign: str, limit: str) -> str:
    if length is None:
        is_more = "small" if sign == ">" else "large"
        return f"is too {is_more} (allowed: {limit} or {_beyond(sign)})"
    unit = "characters" if kind == "str" else "items"
    is_more = "short" if sign == ">" else "long"
    return f"is too {is_more} (allowed: {limit} {unit} or {_beyond(sign)})"


def _form_words(pattern: str) -> str:
    if pattern == _NOT_BLANK:
        return "is blank"
    allowed = pattern.removeprefix(r"\\A").removesuffix(r"\\Z")
    return f"is of another form (allowed: {allowed})"


def _beyond(sign: str) -> str:
    return "more" if sign == ">" else "less"


def _choices(expected: object) -> tuple[str, ...]:
    """Return the words that a type allows, wherever in it they are listed."""
    if get_origin(expected) is Literal:
        return tuple([str(word) for word in get_args(expected)])
    found: list[str] = []
    for inner in get_args(expected):
        found += _choices(inner)
    return tuple(found)
