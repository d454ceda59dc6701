"""Strict loading of records from JSON: unknown names, wrong types, all faults at once.

Rules:
- One fault per field, and every field is looked at, so a file is put right in one go.
- A fault names the place and what was expected there; it does not quote the value.
- Names in a fault come from outside: they are shown short, printable and on one line.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import msgspec
from msgspec.structs import FieldInfo

from deuz_compiler.records.wording import field_fault

T = TypeVar("T", bound=msgspec.Struct)

MAX_SHOWN_LENGTH = 256

# Control characters could forge lines of a block or log; surrogates are not text.
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

HALF_PAIR = re.compile("[\ud800-\udfff]")

UNREADABLE = object()
"""Stands for a text that is not JSON: its fault is told once, where it was read."""


def parse_json(payload: bytes, *, where: str, faults: list[str]) -> object:
    """Return the value in a JSON text; `UNREADABLE`, and a fault, if it is none."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        faults.append(f"{where}: not JSON: {error}")
        return UNREADABLE
    except RecursionError:
        faults.append(f"{where}: nested too deeply")
        return UNREADABLE


def shown(name: str) -> str:
    """Return a name as it may stand in a message: short, printable, one line."""
    return UNPRINTABLE.sub("?", name[:MAX_SHOWN_LENGTH])


def encodable(name: str) -> str:
    """Return a name that UTF-8 can hold: half a surrogate pair becomes U+FFFD."""
    return HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", name)


def load_record(
    record: type[T], raw: object, *, where: str, faults: list[str]
) -> T | None:
    """Return the record in a JSON object; None, and its faults, if there are any."""
    if not isinstance(raw, Mapping):
        _note(raw, f"{where}: not an object", faults)
        return None
    known = _fields(record)
    strange = [shown(str(name)) for name in raw if name not in known]
    found = [f"{where}: unknown field {name}" for name in strange]
    values: dict[str, object] = {}
    for name, field in known.items():
        if name not in raw:
            if field.required:
                found.append(f"{where}: {name} is missing")
            continue
        try:
            values[name] = msgspec.convert(raw[name], field.type)
        except msgspec.ValidationError as error:
            fault = field_fault(name, str(error), field.type)
            found.append(f"{where}: {shown(fault)}")
        except UnicodeEncodeError:
            # Where one of a few words is expected, half a surrogate pair gets here.
            found.append(f"{where}: {name}: not Unicode")
    faults.extend(found)
    return None if found else record(**values)


@cache
def _fields(record: type[msgspec.Struct]) -> Mapping[str, FieldInfo]:
    # Annotations are read anew at each call: a fifth of a small compile.
    return {field.name: field for field in msgspec.structs.fields(record)}


def load_records(
    record: type[T], raw: object, *, where: str, faults: list[str]
) -> tuple[T, ...]:
    """Return the records in a JSON list, without those that have faults."""
    if not isinstance(raw, list):
        _note(raw, f"{where}: not a list", faults)
        return ()
    loaded = [
        load_record(record, item, where=f"{where}[{place}]", faults=faults)
        for place, item in enumerate(raw)
    ]
    return tuple([item for item in loaded if item is not None])


def _note(raw: object, fault: str, faults: list[str]) -> None:
    if raw is not UNREADABLE:
        faults.append(fault)
