"""What is wrong with a body is told in words of ours, with what is allowed."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from deuz_proxy.edge.admin_bodies import (
    DryRunBody,
    ForgetBody,
    RecordBody,
    RecordsBody,
)
from deuz_proxy.edge.admin_mcp import TOOLS
from deuz_proxy.edge.admin_words import told_faults

NO_TIME = (
    "is not a time (allowed: Unix seconds from 0 to 1000000000000, or a time with its "
    "zone, as 2030-01-31T12:00:00Z)"
)
RECORD_KEYS = "text, mandatory, expires_at, origin, source_kinds"
FAULTS: list[tuple[type[BaseModel], str, str, str]] = [
    (RecordBody, "", "body", "is not JSON: it breaks at line 1, column 0 "),
    (RecordBody, "[]", "body", "is not an object (allowed: {…})"),
    (RecordBody, "{}", "body.text", "is required"),
    (RecordBody, '{"text": 1}', "body.text", "is not text (allowed: a string)"),
    (RecordBody, '{"text": " "}', "body.text", "is blank"),
    (
        RecordBody,
        '{"text": "a", "expires": 1}',
        "body.expires",
        f"is not a known key; did you mean expires_at? (allowed: {RECORD_KEYS})",
    ),
    (
        RecordBody,
        '{"text": "a", "mandatory": "true"}',
        "body.mandatory",
        "is not a switch (allowed: true, false)",
    ),
    (RecordBody, '{"text": "a", "expires_at": "x"}', "body.expires_at", NO_TIME),
    (RecordBody, '{"text": "a", "expires_at": -1}', "body.expires_at", NO_TIME),
    (
        RecordBody,
        '{"text": "a", "expires_at": "2100-01-01T00:00:00"}',
        "body.expires_at",
        NO_TIME,
    ),
    (
        RecordBody,
        json.dumps({"text": "a", "origin": "o" * 257}),
        "body.origin",
        "is too long (allowed: at most 256 characters)",
    ),
    (
        RecordBody,
        '{"text": "a", "source_kinds": "x"}',
        "body.source_kinds",
        "is not a list (allowed: [a, b])",
    ),
    (
        RecordBody,
        json.dumps({"text": "a", "source_kinds": ["k"] * 17}),
        "body.source_kinds",
        "is too long (allowed: at most 16 items)",
    ),
    (
        RecordsBody,
        '{"records": [{"id": "", "text": "a"}]}',
        "body.records.0.id",
        "is too short (allowed: 1 character or more)",
    ),
    (
        RecordsBody,
        '{"records": [{"id": "a", "text": "a", "txt": 1}]}',
        "body.records.0.txt",
        f"is not a known key; did you mean text? (allowed: {RECORD_KEYS}, id)",
    ),
    (ForgetBody, '{"scope": "a"}', "body.ids", "is required"),
    (DryRunBody, '{"body": []}', "body.body", "is not an object (allowed: {…})"),
]
ASKED: list[tuple[str, Any, str]] = [
    ("search", {"query": "a", "limit": 0}, "is too small (allowed: 1 or more)"),
    ("search", {"query": "a", "limit": 101}, "is too large (allowed: 100 or less)"),
    ("search", {"query": "a", "limit": "x"}, "is not a whole number "),
    ("search", {"query": "a", "limit": 1.5}, "is not a whole number "),
    ("remember", {"text": "\ud800"}, "is not Unicode text "),
    ("remember", {"text": "a", "expires_at": "x"}, "is not a number "),
    ("remember", {"text": "a", "expires_at": 1e13}, "is too large (allowed: 10000"),
    ("forget", {"ids": []}, "is too short (allowed: 1 item or more)"),
    ("list", [1], "is not an object (allowed: {…})"),
]


def caught(model: type[BaseModel], given: Any) -> ValidationError:
    read = model.model_validate_json if isinstance(given, str) else model.model_validate
    with pytest.raises(ValidationError) as error:
        read(given)
    return error.value


@pytest.mark.parametrize(("model", "text", "where", "what"), FAULTS)
def test_a_fault_is_told_once_with_its_place_and_what_is_allowed(
    model: type[BaseModel], text: str, where: str, what: str
) -> None:
    error = caught(model, text)

    ((place, words),) = told_faults(error, model.model_json_schema(), where="body")

    assert (place, words[: len(what)]) == (where, what)


@pytest.mark.parametrize(("tool", "given", "what"), ASKED)
def test_arguments_of_a_tool_are_told_alike(tool: str, given: Any, what: str) -> None:
    model = TOOLS[tool][0]

    ((_, words),) = told_faults(caught(model, given), {}, where="arguments")

    assert words.startswith(what)


def test_no_word_of_the_library_reaches_a_client() -> None:
    errors = [caught(model, text) for model, text, *_ in FAULTS]
    errors += [caught(TOOLS[tool][0], given) for tool, given, _ in ASKED]

    theirs = {each["msg"] for error in errors for each in error.errors()}
    ours = {what for error in errors for _, what in told_faults(error, {}, where="b")}

    assert not theirs & ours
    assert not any("nput should" in what or "Invalid" in what for what in ours)


def test_what_no_word_is_known_for_leads_to_the_description() -> None:
    class Odd(BaseModel):
        at: complex

    ((_, words),) = told_faults(caught(Odd, {"at": "x"}), {}, where="body")

    assert words == "is not valid (allowed: what /api/v1/openapi.json says)"
