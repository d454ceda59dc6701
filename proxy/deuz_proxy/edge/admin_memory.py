"""The memory API: records of a scope, forgetting, exports.

Rules:
- A scope is named in every call and is all that the call sees.
- A list goes on where its cursor says; a cursor is opaque and names no record to a log.
- An import is checked as a whole before its first line is kept.
"""

import base64
import binascii
import json
import re
from collections.abc import AsyncIterator, Callable, Sequence

from deuz_proxy.edge.admin_answers import (
    Refused,
    check,
    explained,
    invalid,
    read_bytes,
    read_model,
    tell,
)
from deuz_proxy.edge.admin_bodies import (
    Fault,
    ForgetBody,
    ForgottenBody,
    Kept,
    KeptList,
    NamedRecordBody,
    RecordBody,
    RecordsBody,
    Shown,
    ShownList,
    shown,
)
from deuz_proxy.edge.admin_web import Application, Request, Response, Stream
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.forgetting import Forgotten, Memory
from deuz_proxy.memory.records import Draft, Record, id_fault, scope_fault
from deuz_proxy.runtime import Runtime

LIMIT_DEFAULT, LIMIT_CEILING = 100, 500
MAX_IMPORT_BYTES = 64 * 1024 * 1024
MAX_IMPORT_LINES = 20_000
JSON_LINES = "application/jsonl"
_PAGE = 200


def add_memory(app: Application, runtime: Callable[[], Runtime]) -> None:
    """Serve the memory API; `runtime` gives what requests are served with now."""
    records, record = "/api/v1/memory/{scope}", "/api/v1/memory/{scope}/{id}"
    for method, path, handler in (
        ("GET", records, list_records),
        ("PUT", records, put_records),
        ("DELETE", records, forget_scope),
        ("GET", record, show_record),
        ("PUT", record, put_record),
        ("DELETE", record, forget_record),
        ("POST", "/api/v1/forget", forget_records),
        ("GET", "/api/v1/memory-export/{scope}", export_records),
        ("POST", "/api/v1/memory-import/{scope}", import_records),
    ):
        app.add(method, path, explained(handler, runtime))


async def list_records(request: Request, runtime: Runtime) -> Response:
    """Answer with the records that fit a query, or with all, page by page."""
    memory, scope, query = memory_of(runtime), scope_of(request), request.query
    limit, now = _limit(request), memory.clock()
    text, cursor = query.get("query"), query.get("cursor")
    if text is not None:
        if cursor is not None:
            raise invalid("cursor", "does not go with a query (allowed: one of both)")
        hits = await memory.records.search(scope, text, limit=limit, now=now)
        return tell(ShownList(records=[shown(h.record, h.score) for h in hits]))
    after = after_cursor(cursor)
    page = await memory.records.page(scope, after=after, limit=limit + 1, now=now)
    has_more = len(page) > limit
    return tell(
        ShownList(
            records=[shown(each) for each in page[:limit]],
            next_cursor=next_cursor(page[limit - 1].id) if has_more else None,
        )
    )


async def show_record(request: Request, runtime: Runtime) -> Response:
    """Answer with one record."""
    memory, scope, record_id = memory_of(runtime), scope_of(request), _id(request)
    found = await memory.records.get(scope, record_id, now=memory.clock())
    if found is None:
        what = "is no record of this scope; list them at /api/v1/memory/SCOPE"
        raise Refused(404, "unknown_record", [Fault(where="id", what=what)])
    return tell(shown(found))


async def put_record(request: Request, runtime: Runtime) -> Response:
    """Keep one record."""
    memory, scope, record_id = memory_of(runtime), scope_of(request), _id(request)
    body = await read_model(request, RecordBody)
    return tell(_kept(await memory.remember(scope, body.draft(record_id))))


async def put_records(request: Request, runtime: Runtime) -> Response:
    """Keep many records."""
    memory, scope = memory_of(runtime), scope_of(request)
    body = await read_model(request, RecordsBody)
    drafts = [each.draft(each.id) for each in body.records]
    return tell(await _remember(memory, scope, drafts))


async def forget_record(request: Request, runtime: Runtime) -> Response:
    """Forget one record everywhere."""
    forgotten = await memory_of(runtime).forget(scope_of(request), [_id(request)])
    return tell(_forgotten(forgotten))


async def forget_records(request: Request, runtime: Runtime) -> Response:
    """Forget records of a scope everywhere."""
    body = await read_model(request, ForgetBody)
    return tell(_forgotten(await memory_of(runtime).forget(body.scope, body.ids)))


async def forget_scope(request: Request, runtime: Runtime) -> Response:
    """Forget all records of a scope everywhere."""
    return tell(_forgotten(await memory_of(runtime).forget_scope(scope_of(request))))


async def export_records(request: Request, runtime: Runtime) -> Stream:
    """Stream the scope's records, one JSON object a line."""
    memory, scope = memory_of(runtime), scope_of(request)
    now = memory.clock()
    # A store that fails is told while it still can be.
    page = await memory.records.page(scope, after="", limit=_PAGE, now=now)
    return Stream(JSON_LINES, _exported(memory, scope, page, now))


async def _exported(
    memory: Memory, scope: str, page: Sequence[Record], now: float
) -> AsyncIterator[bytes]:
    while page:
        yield _lines(page)
        after = page[-1].id
        page = await memory.records.page(scope, after=after, limit=_PAGE, now=now)


async def import_records(request: Request, runtime: Runtime) -> Response:
    """Keep the records of an export."""
    memory, scope = memory_of(runtime), scope_of(request)
    text = await read_bytes(request, MAX_IMPORT_BYTES)
    drafts = _drafts([line for line in text.split(b"\n") if line.strip()])
    return tell(await _remember(memory, scope, drafts))


def scope_of(request: Request) -> str:
    """Return the scope in the path.

    Raises:
        Refused: it is none.
    """
    return checked_scope(request.named["scope"])


def checked_scope(scope: str) -> str:
    """Return the scope.

    Raises:
        Refused: it is none.
    """
    if fault := scope_fault(scope):
        raise invalid("scope", fault)
    return scope


def memory_of(runtime: Runtime) -> Memory:
    """Return the memory.

    Raises:
        StoreFailed: there is none.
    """
    if runtime.memory is None:
        raise StoreFailed(store="memory", operation="open")
    return runtime.memory


def _id(request: Request) -> str:
    record_id = request.named["id"]
    if fault := id_fault(record_id):
        raise invalid("id", fault)
    return record_id


def _limit(request: Request) -> int:
    text = request.query.get("limit", str(LIMIT_DEFAULT))
    if re.fullmatch("[0-9]{1,4}", text) and 1 <= int(text) <= LIMIT_CEILING:
        return int(text)
    raise invalid("limit", f"is not a whole number (allowed: 1 to {LIMIT_CEILING})")


def next_cursor(record_id: str) -> str:
    """Return where a list goes on that ended with a record."""
    return base64.urlsafe_b64encode(record_id.encode()).decode().rstrip("=")


def after_cursor(cursor: str | None) -> str:
    """Return the id behind which a cursor goes on, "" for the start.

    Raises:
        Refused: it is none.
    """
    if cursor is None:
        return ""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise invalid("cursor", "is none (allowed: next_cursor of a list)") from None


def _kept(record: Record) -> Kept:
    return Kept(id=record.id, revision=record.revision, digest=record.digest)


def _forgotten(done: Forgotten) -> ForgottenBody:
    return ForgottenBody(
        forgotten=done.forgotten, placements_redacted=done.placements_redacted
    )


async def _remember(memory: Memory, scope: str, drafts: Sequence[Draft]) -> KeptList:
    kept = [_kept(await memory.remember(scope, draft)) for draft in drafts]
    return KeptList(records=kept)


def _lines(page: Sequence[Record]) -> bytes:
    return b"".join(b"%s\n" % _line(shown(record)) for record in page)


def _line(record: Shown) -> bytes:
    left_out = {"score", "revision", "digest"}
    content = record.model_dump(exclude=left_out, exclude_none=True)
    return json.dumps(content, ensure_ascii=False).encode()


def _drafts(lines: Sequence[bytes]) -> list[Draft]:
    """Return what an import's lines say.

    Raises:
        Refused: there are too many, or some have faults; all are listed.
    """
    if len(lines) > MAX_IMPORT_LINES:
        raise invalid("body", f"has over {MAX_IMPORT_LINES} lines; send less at once")
    drafts: list[Draft] = []
    faults: list[Fault] = []
    for number, line in enumerate(lines, 1):
        try:
            record = check(NamedRecordBody, line, where=f"line {number}")
        except Refused as refused:
            faults += refused.faults
        else:
            drafts.append(record.draft(record.id))
    if faults:
        raise Refused(400, "invalid_request", faults)
    return drafts
