"""The memory API described in OpenAPI 3.1, made from the models that check it."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from deuz_proxy import __version__
from deuz_proxy.config.memory import SCOPE_PATTERN
from deuz_proxy.edge.admin_bodies import (
    DryRun,
    DryRunBody,
    FaultsBody,
    ForgetBody,
    ForgottenBody,
    Kept,
    KeptList,
    NotesBody,
    PatchBody,
    PatchedBody,
    RecordBody,
    RecordsBody,
    Shown,
    ShownList,
)
from deuz_proxy.edge.admin_memory import JSON_LINES, LIMIT_CEILING, LIMIT_DEFAULT
from deuz_proxy.edge.admin_web import Application, Request, Response, answer_json
from deuz_proxy.memory.records import MAX_ID_CHARACTERS
from deuz_proxy.memory.working import KEY_PATTERN

PATH = "/api/v1/openapi.json"
_Operation = Mapping[str, Any]
_Described = tuple[type[BaseModel], Literal["validation", "serialization"]]

_SCOPE = {"type": "string", "pattern": f"^{SCOPE_PATTERN}$"}
_ID = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
_KEY = {"type": "string", "pattern": f"^{KEY_PATTERN}$"}
_LIMIT = {
    "type": "integer",
    "minimum": 1,
    "maximum": LIMIT_CEILING,
    "default": LIMIT_DEFAULT,
}
_IN = (
    RecordBody,
    RecordsBody,
    ForgetBody,
    PatchBody,
    DryRunBody,
)
_OUT = (
    Kept,
    KeptList,
    Shown,
    ShownList,
    ForgottenBody,
    NotesBody,
    PatchedBody,
    DryRun,
    FaultsBody,
)


def add_openapi(app: Application, *, has_token: bool) -> None:
    """Serve the description."""

    async def show(_: Request) -> Response:
        return answer_json(describe_api(has_token=has_token))

    app.add("GET", PATH, show)


@cache  # When it is first asked for: most never do.
def describe_api(*, has_token: bool) -> dict[str, Any]:
    """Return the description; with a token it says that one is asked for."""
    taken: list[_Described] = [(model, "validation") for model in _IN]
    answered: list[_Described] = [(model, "serialization") for model in _OUT]
    _, schemas = models_json_schema(
        [*taken, *answered],
        ref_template="#/components/schemas/{model}",
    )
    components: dict[str, Any] = {"schemas": schemas["$defs"]}
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "deuz-sidecar: memory",
            "version": __version__,
            "description": "Memory records, forgetting, working memory and dry runs, "
            "at the admin address.",
        },
        "paths": _paths(),
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
    return described


def _paths() -> dict[str, Any]:
    scope, record_id = _path("scope", _SCOPE), _path("id", _ID)
    key, named = _path("key", _KEY), _query("scope", _SCOPE)
    asked = (
        _query("query", {"type": "string"}),
        _query("limit", _LIMIT),
        _query("cursor", {"type": "string"}),
    )
    return {
        "/api/v1/memory/{scope}": {
            "parameters": [scope],
            "get": _operation("listRecords", ShownList, parameters=asked),
            "put": _operation("putRecords", KeptList, body=RecordsBody),
            "delete": _operation("forgetScope", ForgottenBody),
        },
        "/api/v1/memory/{scope}/{id}": {
            "parameters": [scope, record_id],
            "get": _operation("showRecord", Shown),
            "put": _operation("putRecord", Kept, body=RecordBody),
            "delete": _operation("forgetRecord", ForgottenBody),
        },
        "/api/v1/forget": {
            "post": _operation("forgetRecords", ForgottenBody, body=ForgetBody)
        },
        "/api/v1/memory-export/{scope}": {
            "parameters": [scope],
            "get": _operation("exportRecords", None),
        },
        "/api/v1/memory-import/{scope}": {
            "parameters": [scope],
            "post": {
                **_operation("importRecords", KeptList),
                "requestBody": {"required": True, "content": _LINES},
            },
        },
        "/api/v1/working-memory/{key}": {
            "parameters": [key, named],
            "get": _operation("showNotes", NotesBody),
            "patch": _operation("patchNotes", PatchedBody, body=PatchBody),
            "delete": _operation("dropNotes", ForgottenBody),
        },
        "/api/v1/compile": {"post": _operation("runDry", DryRun, body=DryRunBody)},
    }


_LINES = {JSON_LINES: {"schema": {"type": "string"}}}


def _operation(
    name: str,
    answer: type[BaseModel] | None,
    *,
    body: type[BaseModel] | None = None,
    parameters: tuple[_Operation, ...] = (),
) -> dict[str, Any]:
    content = _LINES if answer is None else _content(answer)
    operation: dict[str, Any] = {
        "operationId": name,
        "responses": {
            "200": {"description": "Done.", "content": content},
            "default": {"description": "Refused.", "content": _content(FaultsBody)},
        },
    }
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _content(body)}
    return operation


def _content(model: type[BaseModel]) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"application/json": {"schema": reference}}


def _path(name: str, schema: _Operation) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(name: str, schema: _Operation) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}
