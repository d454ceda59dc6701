"""The description is valid, whole, and true of what is answered."""

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from deuz_proxy.edge.admin_openapi import PATH, describe_api
from deuz_testing.memory_api import served_admin


def schema_of(described: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a schema that finds the others it names."""
    reference = f"#/components/schemas/{name}"
    return {"$ref": reference, "components": described["components"]}


def operations(described: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, item in described["paths"].items():
        yield from ((path, verb) for verb in item if verb != "parameters")


def test_the_description_is_valid_with_and_without_a_token() -> None:
    validate(describe_api(has_token=False))
    validate(describe_api(has_token=True))


def test_a_token_is_asked_for_where_there_is_one() -> None:
    assert "security" not in describe_api(has_token=False)
    assert describe_api(has_token=True)["security"] == [{"token": []}]


async def test_every_path_of_the_api_is_described_and_no_other() -> None:
    async with served_admin() as api:
        described = json.loads(await api.text("GET", PATH))
        served = await api.text("GET", "/healthz")

    assert json.loads(served)["status"] == "ok"
    assert sorted(operations(described)) == sorted(
        [
            ("/api/v1/memory/{scope}", "get"),
            ("/api/v1/memory/{scope}", "put"),
            ("/api/v1/memory/{scope}", "delete"),
            ("/api/v1/memory/{scope}/{id}", "get"),
            ("/api/v1/memory/{scope}/{id}", "put"),
            ("/api/v1/memory/{scope}/{id}", "delete"),
            ("/api/v1/forget", "post"),
            ("/api/v1/memory-export/{scope}", "get"),
            ("/api/v1/memory-import/{scope}", "post"),
            ("/api/v1/working-memory/{key}", "get"),
            ("/api/v1/working-memory/{key}", "patch"),
            ("/api/v1/working-memory/{key}", "delete"),
            ("/api/v1/compile", "post"),
        ]
    )


async def test_answers_are_what_the_description_says() -> None:
    described = describe_api(has_token=False)
    memory, notes = "/api/v1/memory/acme", "/api/v1/working-memory/k"
    patch = {
        "operation_id": "a",
        "expected_revision": 0,
        "writer": "host",
        "operations": [{"op": "set-goal", "text": "x"}],
    }
    steps: list[tuple[str, str, Any, str]] = [
        ("PUT", f"{memory}/r", {"text": "green"}, "Kept"),
        ("PUT", memory, {"records": [{"id": "s", "text": "x"}]}, "KeptList"),
        ("GET", f"{memory}/r", None, "Shown"),
        ("GET", f"{memory}?query=green", None, "ShownList"),
        ("GET", f"{memory}?limit=1", None, "ShownList"),
        ("GET", notes, None, "NotesBody"),
        ("PATCH", notes, patch, "PatchedBody"),
        ("GET", notes, None, "NotesBody"),
        ("POST", "/api/v1/compile", {"text": "x"}, "DryRun"),
        ("POST", "/api/v1/forget", {"scope": "acme", "ids": ["r"]}, "ForgottenBody"),
        ("PUT", f"{memory}/r", {}, "FaultsBody"),
    ]
    async with served_admin() as api:
        for method, path, body, name in steps:
            _, answered = await api.call(method, path, body)

            schema = schema_of(described, name)
            assert list(Draft202012Validator(schema).iter_errors(answered)) == []
