"""What a model found wrong, in words for the person who wrote the file.

Rules:
- Never a value from the file: it may be, or hold, a secret.
- Allowed keys are read from the schema, so that they cannot drift from the model.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from deuz_proxy.config.nodes import Document, Place
from deuz_proxy.config.values import nearest

Context = Mapping[str, Any]
_Phrase = Callable[[Context], str]
# The default factory of an id could not run since its kind is wrong: already told.
_ECHOES = ("default_factory_not_called",)


def blame_all(
    document: Document, model: type[BaseModel], found: ValidationError
) -> None:
    """Add every error of the model to the document's mistakes, each once."""
    schema = model.model_json_schema()
    for error in found.errors(include_url=False, include_input=False):
        place = _place(document, error["loc"])
        is_told = any(
            place[:length] in document.unusable for length in range(len(place) + 1)
        )
        if error["type"] not in _ECHOES and not is_told:
            document.blame(place, _words(error, schema))


def unknown_key(location: Sequence[str | int], schema: Mapping[str, Any]) -> str:
    """Return what is wrong with a key that the model of this schema does not have."""
    known = _known_keys(location[:-1], schema)
    hint = nearest(str(location[-1]), known)
    return f"is not a known key{hint} (allowed: {', '.join(known)})"


def _place(document: Document, location: Sequence[str | int]) -> Place:
    """Drop the tags of unions: they are steps of the model, not of the file.

    A mistake in a key comes with a last step `[key]`, which is dropped as well, and one
    of a whole section in a union ends with the section's tag.
    """
    place: Place = ()
    for step in location[:-1]:
        here = document.at(place)
        is_inside = isinstance(here, list) or (isinstance(here, dict) and step in here)
        if is_inside:
            place = (*place, step)
    here = document.at(place)
    is_tag = isinstance(here, dict) and location[-1:] == (here.get("type"),)
    is_dropped = is_tag or location[-1:] == ("[key]",)
    return place if is_dropped else (*place, *location[-1:])


def _words(error: ErrorDetails, schema: Mapping[str, Any]) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        return unknown_key(error["loc"], schema)
    phrase = _PHRASES.get(kind)
    if phrase is not None:
        return phrase(error.get("ctx", {}))
    for ending, words in _TYPES.items():
        if kind.startswith(ending):
            return words
    return f"is not valid: {error['msg'][:1].lower()}{error['msg'][1:]}"


def _known_keys(
    location: Sequence[str | int], schema: Mapping[str, Any]
) -> tuple[str, ...]:
    here = schema
    for step in location:
        here = _below(_resolved(here, schema), step)
    return tuple(_resolved(here, schema).get("properties", ()))


def _below(here: Mapping[str, Any], step: str | int) -> Mapping[str, Any]:
    for name in ("discriminator", "properties"):
        inner = here.get(name, {})
        choices = inner.get("mapping", inner)
        if step in choices:
            choice = choices[step]
            return {"$ref": choice} if isinstance(choice, str) else choice
    below: Mapping[str, Any] = (
        here.get("items", {})
        if isinstance(step, int)
        else here.get("additionalProperties", {})
    )
    return below


def _resolved(here: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in here:
        here = schema["$defs"][here["$ref"].rpartition("/")[2]]
    return here


def _choice(context: Context) -> str:
    allowed = re.findall(r"'([^']*)'", str(context["expected"]))
    return f"is not one of the allowed values (allowed: {', '.join(allowed)})"


def _type_tag(context: Context) -> str:
    allowed = str(context["expected_tags"]).replace("'", "")
    return f"has an unknown type (allowed: {allowed})"


def _at_most(context: Context) -> str:
    return f"is too long (allowed: at most {context['max_length']})"


_PHRASES: Mapping[str, _Phrase] = {
    "missing": lambda _: "is required",
    "literal_error": _choice,
    "union_tag_invalid": _type_tag,
    "union_tag_not_found": lambda _: (
        "needs a type (allowed: static, files, http, store, mcp, transcript, skills)"
    ),
    "greater_than": lambda context: f"is too small (allowed: above {context['gt']})",
    "greater_than_equal": lambda context: (
        f"is too small (allowed: {context['ge']} or more)"
    ),
    "less_than_equal": lambda context: (
        f"is too large (allowed: {context['le']} or less)"
    ),
    "too_long": _at_most,
    "string_too_long": _at_most,
    "value_error": lambda context: str(context["error"]),
}
_TYPES: Mapping[str, str] = {
    "int_": "is not a whole number (allowed: 0, 1, 2, …)",
    "float_": "is not a number (allowed: 1, 2.5, …)",
    "decimal_": "is not a number (allowed: 0, 0.25, 1, …)",
    "finite_number": "is not a number (allowed: 1, 2.5, …)",
    "bool_": "is not a switch (allowed: true, false)",
    "string_": "is not text (allowed: one value)",
    "path_": "is not a path (allowed: one value)",
    "tuple_": "is not a list (allowed: [a, b])",
    "dict_": "is not a mapping (allowed: key: value)",
    "model_": "is not a mapping (allowed: key: value)",
}
