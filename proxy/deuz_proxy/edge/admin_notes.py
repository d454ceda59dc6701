"""Working memory over HTTP: read it, patch it, forget it."""

from collections.abc import Callable

import msgspec

from deuz_proxy.edge.admin_answers import explained, invalid, read_json, tell
from deuz_proxy.edge.admin_bodies import ForgottenBody, NotesBody, PatchedBody
from deuz_proxy.edge.admin_memory import checked_scope
from deuz_proxy.edge.admin_web import Application, Request, Response
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.working import WorkingMemory, key_fault
from deuz_proxy.runtime import Runtime

_PATH = "/api/v1/working-memory/{key}"


def add_notes(app: Application, runtime: Callable[[], Runtime]) -> None:
    """Serve working memory."""
    app.add("GET", _PATH, explained(show_notes, runtime))
    app.add("PATCH", _PATH, explained(patch_notes, runtime))
    app.add("DELETE", _PATH, explained(drop_notes, runtime))


async def show_notes(request: Request, runtime: Runtime) -> Response:
    """Answer with the working memory under a key, empty at revision 0."""
    key, scope = _key(request), notes_scope(request, runtime)
    snapshot = await _notes(runtime).read(scope, key)
    content = msgspec.to_builtins(snapshot)
    for name in ("applied", "scope", "revision"):
        del content[name]
    revision = snapshot.revision
    return tell(
        NotesBody(key=key, scope=scope, revision=revision, working_memory=content)
    )


async def patch_notes(request: Request, runtime: Runtime) -> Response:
    """Change the working memory under a key."""
    key, scope = _key(request), notes_scope(request, runtime)
    patched = await _notes(runtime).patch(scope, key, await read_json(request))
    return tell(
        PatchedBody(
            status=patched.status,
            revision=patched.revision,
            reason=patched.reason,
            ids=list(patched.ids) if patched.status != "rejected" else None,
            operation=patched.operation,
        )
    )


async def drop_notes(request: Request, runtime: Runtime) -> Response:
    """Forget the working memory under a key."""
    key, scope = _key(request), notes_scope(request, runtime)
    dropped = await _notes(runtime).drop(scope, key)
    return tell(ForgottenBody(forgotten=int(dropped), placements_redacted=0))


def notes_scope(request: Request, runtime: Runtime) -> str:
    """Return the scope in the query; without one it is tenant `default`, if it is one.

    Raises:
        Refused: it is none, or has to be named.
    """
    scope = request.query.get("scope")
    if scope is not None:
        return checked_scope(scope)
    if runtime.config.tenants:
        raise invalid("scope", "is missing: there are tenants (allowed: ?scope=tenant)")
    return "default"


def _notes(runtime: Runtime) -> WorkingMemory:
    if runtime.notes is None:
        raise StoreFailed(store="memory", operation="open")
    return runtime.notes


def _key(request: Request) -> str:
    key = request.named["key"]
    if fault := key_fault(key):
        raise invalid("key", fault)
    return key
