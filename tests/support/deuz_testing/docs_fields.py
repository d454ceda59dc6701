"""The configuration's fields as a reader of the docs wants them: key, form, default.

Rules:
- Sections come in the order in which the model lists them, each at the path it has in a
  file: `[]` is an element of a list, `NAME` a key that the user chooses.
- A type is told by the form that the file takes, not by its class in Python.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from deuz_proxy.config import values

_FORMS = {
    get_args(form)[-1].func: words
    for form, words in (
        (values.Address, "HOST:PORT"),
        (values.Name, "a name"),
        (values.HeaderName, "a header name"),
        (values.Url, "a URL"),
        (values.KeyDigest, "`sha256:` and 64 hex digits"),
        (values.PathRule, "a path"),
        (values.LastingText, "fixed text"),
    )
}
_PLAIN: Mapping[Any, str] = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    Decimal: "number",
    str: "text",
    SecretStr: "secret text",
    Path: "a path of a file or folder",
}
_CONTAINERS: Mapping[Any, str] = {tuple: "list", Mapping: "mapping"}


@dataclass(frozen=True, slots=True)
class Row:
    """One field of a section."""

    key: str
    takes: str
    default: str
    text: str


def list_sections(
    model: type[BaseModel], path: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield every section with its path, from the top of the file down."""
    yield _title(model, path), model
    for name, field in model.model_fields.items():
        for step, inner in _inner_sections(field.annotation):
            yield from list_sections(inner, f"{path}.{name}{step}".strip("."))


def list_rows(model: type[BaseModel]) -> Iterator[Row]:
    """Yield the fields of one section."""
    for name, field in model.model_fields.items():
        takes = _takes(field.annotation, tuple(field.metadata))
        yield Row(name, takes, _default(field), field.description or "")


def _title(model: type[BaseModel], path: str) -> str:
    kind = model.model_fields.get("type")
    is_one_of_many = kind is not None and get_origin(kind.annotation) is Literal
    shown = f"`{path}`" if path else "Top level"
    if not is_one_of_many or kind is None:
        return shown
    return f"{shown} with `type: {get_args(kind.annotation)[0]}`"


def _inner_sections(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections that an annotation names, with the step that leads there."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield "", annotation
        return
    steps = {tuple: "[]", Mapping: ".NAME"}
    step = steps.get(_container(annotation), "")
    for argument in get_args(annotation):
        for inner_step, inner in _inner_sections(argument):
            yield step + inner_step, inner


def _container(annotation: Any) -> Any:
    origin = get_origin(annotation)
    return Mapping if origin in (Mapping, get_origin(Mapping[str, int])) else origin


def _takes(annotation: Any, metadata: tuple[Any, ...]) -> str:
    origin, arguments = _container(annotation), get_args(annotation)
    if origin is Annotated:
        return _takes(arguments[0], (*_flat(arguments[1:]), *metadata))
    if origin in (Union, UnionType):
        kinds = [a for a in arguments if a is not NoneType]
        return " or ".join(dict.fromkeys(_takes(kind, metadata) for kind in kinds))
    if origin is Literal:
        return ", ".join(f"`{word}`" for word in arguments)
    if origin in _CONTAINERS:
        return f"{_CONTAINERS[origin]} of: {_takes(_element(arguments), ())}"
    return _takes_one(annotation, metadata)


def _element(arguments: tuple[Any, ...]) -> Any:
    """Return what a list holds, or a mapping's values."""
    is_list = arguments[1:] == (Ellipsis,)
    return arguments[0] if is_list else arguments[-1]


def _takes_one(annotation: Any, metadata: tuple[Any, ...]) -> str:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "section"
    return _form(metadata) or _PLAIN[annotation] + _limits(metadata)


def _flat(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for each in metadata:
        yield from each.metadata if isinstance(each, FieldInfo) else (each,)


def _form(metadata: tuple[Any, ...]) -> str | None:
    functions = (getattr(each, "func", None) for each in metadata)
    return next((_FORMS[f] for f in functions if f in _FORMS), None)


def _limits(metadata: tuple[Any, ...]) -> str:
    """Say the bounds of a number; of two bounds on a side the last one counts."""
    found = {
        name: getattr(each, name)
        for each in metadata
        for name in ("ge", "gt", "le", "lt")
        if hasattr(each, name)
    }
    if "gt" in found:
        least = f", above {found['gt']:,}"
        return least + (f", at most {found['le']:,}" if "le" in found else "")
    if "ge" not in found:
        return ""
    return f", {found['ge']:,} " + (
        f"to {found['le']:,}" if "le" in found else "or more"
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory_takes_validated_data:
        return "from another key"
    return _shown(field.get_default(call_default_factory=True))


def _shown(value: Any) -> str:
    if isinstance(value, BaseModel) or _holds_sections(value):
        return "see there"
    if value is None or value in ("", (), {}):
        return "none"
    return f"`{json.dumps(_plain(value), ensure_ascii=False)}`".replace('"', "")


def _holds_sections(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any(isinstance(inner, BaseModel) for inner in value.values())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, Decimal) else value
