"""Memory as tools of the Model Context Protocol: streamable HTTP, nothing kept between.

Rules:
- Written out, not taken from the SDK: its server half runs on ASGI only and brings a
  second web server; what a server without sessions has to say fits into this module.
- A grant's token may use these tools and nothing else, in its own scope. The admin
  token, or this machine where there is none, names the scope in the call.
- A tool's fault is an answer for the model; a message's fault is one for its program.
- A model can neither make a record mandatory nor see that another scope exists.
"""

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from deuz_proxy import __version__
from deuz_proxy.edge.admin_answers import (
    MAX_BODY_BYTES,
    Refused,
    invalid,
    read_bytes,
)
from deuz_proxy.edge.admin_bodies import Fault, Id, RecordBody, faults_of, shown
from deuz_proxy.edge.admin_memory import after_cursor, memory_of, next_cursor
from deuz_proxy.edge.admin_web import (
    Application,
    Request,
    Response,
    answer_json,
    refuse,
)
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.memory.records import MAX_TEXT_CHARACTERS, scope_fault
from deuz_proxy.runtime import Runtime

PATH = "/mcp"
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
_PARSE, _INVALID, _UNKNOWN, _PARAMS = -32700, -32600, -32601, -32602
_ORIGIN = "mcp"
_METHODS = "initialize, ping, tools/list, tools/call"

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Right:
    """What a caller may touch: one scope, or any where `scope` is None."""

    scope: str | None


class _Arguments(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True
    )

    scope: str | None = Field(
        default=None, description="`tenant` or `tenant/name`; `default` without it."
    )


class Remember(_Arguments):
    """Keep a short fact for later conversations; an id used before gets a new text."""

    text: str = Field(
        max_length=MAX_TEXT_CHARACTERS, description="The fact, by itself."
    )
    id: Id | None = Field(default=None, description="A name for it; made if left out.")
    expires_at: float | None = Field(
        default=None, ge=0, le=1e12, description="When it is to be gone: Unix seconds."
    )


class Search(_Arguments):
    """Find what was remembered, by the words of a question."""

    query: str = Field(description="The question.")
    limit: int = Field(default=10, ge=1, le=100, description="At most so many.")


class Forget(_Arguments):
    """Remove what was remembered, everywhere and for good."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=100)] = Field(
        description="The ids, as search and list tell them."
    )


class List(_Arguments):
    """List what was remembered, page by page."""

    limit: int = Field(default=50, ge=1, le=100, description="At most so many.")
    cursor: str | None = Field(default=None, description="Where the last page ended.")


async def remember(memory: Memory, scope: str, asked: Remember) -> Answer:
    """Keep a record; its name is made from its text where none is given."""
    body = RecordBody(text=asked.text, expires_at=asked.expires_at, origin=_ORIGIN)
    made = f"m-{hashlib.sha256(asked.text.encode()).hexdigest()[:12]}"
    record = await memory.remember(scope, body.draft(asked.id or made))
    return {"id": record.id, "revision": record.revision}


async def search(memory: Memory, scope: str, asked: Search) -> Answer:
    """Return what fits a question, the best first."""
    hits = await memory.records.search(
        scope, asked.query, limit=asked.limit, now=memory.clock()
    )
    records = [shown(hit.record, hit.score) for hit in hits]
    return {"records": [each.model_dump(exclude_none=True) for each in records]}


async def forget(memory: Memory, scope: str, asked: Forget) -> Answer:
    """Remove records everywhere."""
    done = await memory.forget(scope, asked.ids)
    return {
        "forgotten": done.forgotten,
        "placements_redacted": done.placements_redacted,
    }


async def list_all(memory: Memory, scope: str, asked: List) -> Answer:
    """Return a page of records."""
    after, limit = after_cursor(asked.cursor), asked.limit
    page = await memory.records.page(
        scope, after=after, limit=limit + 1, now=memory.clock()
    )
    records = [shown(each).model_dump(exclude_none=True) for each in page[:limit]]
    more = {"next_cursor": next_cursor(page[limit - 1].id)} if page[limit:] else {}
    return {"records": records, **more}


Work = Callable[[Memory, str, Any], Awaitable[Answer]]
TOOLS: Mapping[str, tuple[type[_Arguments], Work]] = {
    "remember": (Remember, remember),
    "search": (Search, search),
    "forget": (Forget, forget),
    "list": (List, list_all),
}


def add_mcp(
    app: Application, runtime: Callable[[], Runtime], token: str | None
) -> None:
    """Serve the tools; the guard leaves the question who asks to this module."""

    async def serve(request: Request) -> Response:
        in_force = runtime()
        right = right_of(request, in_force, token)
        if right is None:
            # As the guard says it, for a client that looks for the word.
            headers = {"WWW-Authenticate": "Bearer"}
            return refuse(401, "unauthorized", _UNAUTHORIZED, headers=headers)
        return await answer_message(request, in_force, right)

    app.add("POST", PATH, serve)


_UNAUTHORIZED = (
    "the bearer token is missing or wrong; send Authorization: Bearer with admin.token "
    "or the token of a grant under memory.grants"
)


def right_of(request: Request, runtime: Runtime, token: str | None) -> Right | None:
    """Return what the caller may touch; None: nothing."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    secret = given.strip().encode("utf-8", "surrogateescape")
    if scheme.lower() != "bearer" or not secret:
        return Right(None) if token is None else None
    if token is not None and hmac.compare_digest(secret, token.encode()):
        return Right(None)
    digest = f"sha256:{hashlib.sha256(secret).hexdigest()}"
    for grant in runtime.config.memory.grants.values():
        if hmac.compare_digest(grant.key, digest):
            return Right(grant.scope)
    return None


async def answer_message(request: Request, runtime: Runtime, right: Right) -> Response:
    """Answer one message; a notification is only taken note of."""
    try:
        message = await _read_message(request)
    except _Unreadable as fault:
        return _failed(None, fault.code, str(fault), status=fault.status)
    name, number = message.get("method"), message.get("id")
    if not isinstance(name, str) or number is None:
        return Response(status=202)
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    if name == "tools/call":
        return await _call(number, params, runtime, right)
    result = _plain_result(name, params, right)
    if result is None:
        return _failed(number, _UNKNOWN, f"there is no such method; {_METHODS} are")
    return _done(number, result)


class _Unreadable(Exception):
    """A body that is no message; `code` is the protocol's."""

    def __init__(self, code: int, text: str, *, status: int = 400) -> None:
        super().__init__(text)
        self.code = code
        self.status = status


async def _read_message(request: Request) -> dict[str, Any]:
    try:
        message = json.loads(await read_bytes(request, MAX_BODY_BYTES))
    except (ValueError, RecursionError):
        raise _Unreadable(_PARSE, "the body is not JSON") from None
    except Refused as fault:
        text = f"the body {fault.faults[0].what}"
        raise _Unreadable(_INVALID, text, status=fault.status) from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise _Unreadable(_INVALID, "the body is no JSON-RPC message")
    return message


def _plain_result(name: str, params: Mapping[str, Any], right: Right) -> Answer | None:
    if name == "ping":
        return {}
    if name == "tools/list":
        return {"tools": [_described(tool, right) for tool in TOOLS]}
    if name != "initialize":
        return None
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "deuz-sidecar", "version": __version__},
    }


def _described(name: str, right: Right) -> Answer:
    arguments, _ = TOOLS[name]
    schema = arguments.model_json_schema()
    if right.scope is not None:
        del schema["properties"]["scope"]
    description = schema.pop("description")
    is_reading = name in ("search", "list")
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {
            "readOnlyHint": is_reading,
            "destructiveHint": name == "forget",
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }


async def _call(
    number: object, params: Mapping[str, Any], runtime: Runtime, right: Right
) -> Response:
    name = str(params.get("name"))
    tool = TOOLS.get(name)
    if tool is None:
        return _failed(
            number, _PARAMS, f"there is no such tool; {', '.join(TOOLS)} are"
        )
    model, work = tool
    try:
        asked = model.model_validate(params.get("arguments") or {})
        scope = _scope(asked, right)
        result = await work(memory_of(runtime), scope, asked)
    except ValidationError as error:
        # Of the keys that this caller is told of: a grant's knows no scope.
        schema = _described(name, right)["inputSchema"]
        faults = faults_of(error, schema, where="arguments")
        return _done(number, _text(_listed(faults), is_error=True))
    except Refused as refused:
        return _done(number, _text(_listed(refused.faults), is_error=True))
    except StoreFailed:
        told = "the memory did not answer; trying again is harmless"
        return _done(number, _text(told, is_error=True))
    text = json.dumps(result, ensure_ascii=False)
    return _done(number, {**_text(text), "structuredContent": result})


def _listed(faults: Sequence[Fault]) -> str:
    return "; ".join(f"{fault.where}: {fault.what}" for fault in faults)


def _scope(asked: _Arguments, right: Right) -> str:
    """Return the scope of a call.

    Raises:
        Refused: it is none, or not the caller's.
    """
    scope = asked.scope or right.scope or "default"
    if fault := scope_fault(scope):
        raise invalid("arguments.scope", fault)
    if right.scope not in (None, scope):
        raise invalid("arguments.scope", "is not yours (leave it out)")
    return scope


def _text(text: str, *, is_error: bool = False) -> Answer:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def _done(number: object, result: Answer) -> Response:
    return answer_json({"jsonrpc": "2.0", "id": number, "result": result})


def _failed(number: object, code: int, message: str, *, status: int = 200) -> Response:
    error = {"code": code, "message": message}
    content = {"jsonrpc": "2.0", "id": number, "error": error}
    return answer_json(content, status=status)
