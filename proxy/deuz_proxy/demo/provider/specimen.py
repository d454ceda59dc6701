"""A plausible value for a JSON schema, always the same one.

Rules:
- Only required members are filled in; a schema without `required` gets all of them.
- Unknown keywords are ignored; recursion ends at a fixed depth with null.
"""

from typing import Any

from deuz_proxy.demo.provider.exchange import Json
from deuz_proxy.demo.provider.fields import mapping, objects

MAX_DEPTH = 12


def make_specimen(schema: Json) -> Any:
    """Return a value that the schema accepts, as far as common schemas go."""
    return _specimen(schema, schema, name="value", depth=0)


def make_arguments(schema: Json) -> Json:
    """Return the arguments of a tool call."""
    return mapping(make_specimen(schema))


def _specimen(schema: Json, root: Json, *, name: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return None
    given = _given(schema)
    if given:
        return given[0]
    inner = _inner(schema, root)
    if inner is not None:
        return _specimen(inner, root, name=name, depth=depth + 1)
    return _by_kind(schema, root, name, depth)


def _by_kind(schema: Json, root: Json, name: str, depth: int) -> Any:
    kind = _kind(schema)
    if kind == "object":
        return _fill_object(schema, root, depth)
    if kind == "array":
        return _fill_array(schema, root, name, depth)
    return _scalar(kind, schema, name)


def _given(schema: Json) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices
    return [schema["default"]] if schema.get("default") is not None else []


def _inner(schema: Json, root: Json) -> Json | None:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for step in reference[2:].split("/"):
            target = mapping(target).get(step)
        return mapping(target)
    for keyword in ("anyOf", "oneOf", "allOf"):
        choices = objects(schema.get(keyword))
        if choices:
            return next((c for c in choices if c.get("type") != "null"), choices[0])
    return None


def _kind(schema: Json) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((entry for entry in kind if entry != "null"), "null")
    if isinstance(kind, str):
        return kind.lower()  # Gemini writes types in capitals.
    return "object" if "properties" in schema else "string"


def _fill_object(schema: Json, root: Json, depth: int) -> Json:
    members = mapping(schema.get("properties"))
    required = schema.get("required")
    names = required if isinstance(required, list) else list(members)
    return {
        name: _specimen(mapping(members.get(name)), root, name=name, depth=depth + 1)
        for name in names
        if isinstance(name, str)
    }


def _fill_array(schema: Json, root: Json, name: str, depth: int) -> list[Any]:
    item = mapping(schema.get("items"))
    return [
        _specimen(item, root, name=name, depth=depth + 1)
        for _ in range(max(schema.get("minItems", 1), 1))
    ]


def _scalar(kind: str, schema: Json, name: str) -> Any:
    if kind in {"integer", "number"}:
        return schema.get("minimum", 1)
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    return f"example {name}".ljust(schema.get("minLength", 0), ".")
