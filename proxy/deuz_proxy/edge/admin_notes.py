"""Working memory over HTTP: read it, patch it, forget it."""

import msgspec
from aiohttp import web

from deuz_proxy.edge.admin_answers import explained, invalid, read_json, tell
from deuz_proxy.edge.admin_bodies import ForgottenBody, NotesBody, PatchedBody
from deuz_proxy.edge.admin_memory import IN_FORCE, checked_scope
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.working import WorkingMemory, key_fault

_PATH = "/api/v1/working-memory/{key}"


def add_notes(app: web.Application) -> None:
    """Serve working memory; the memory API is there already."""
    app.router.add_get(_PATH, explained(show_notes), allow_head=False)
    app.router.add_patch(_PATH, explained(patch_notes))
    app.router.add_delete(_PATH, explained(drop_notes))


async def show_notes(request: web.Request) -> web.Response:
    """Answer with the working memory under a key, empty at revision 0."""
    key, scope = _key(request), notes_scope(request)
    snapshot = await _notes(request).read(scope, key)
    content = msgspec.to_builtins(snapshot)
    for name in ("applied", "scope", "revision"):
        del content[name]
    revision = snapshot.revision
    return tell(
        NotesBody(key=key, scope=scope, revision=revision, working_memory=content)
    )


async def patch_notes(request: web.Request) -> web.Response:
    """Change the working memory under a key."""
    key, scope = _key(request), notes_scope(request)
    patched = await _notes(request).patch(scope, key, await read_json(request))
    return tell(
        PatchedBody(
            status=patched.status,
            revision=patched.revision,
            reason=patched.reason,
            ids=list(patched.ids) if patched.status != "rejected" else None,
            operation=patched.operation,
        )
    )


async def drop_notes(request: web.Request) -> web.Response:
    """Forget the working memory under a key."""
    key, scope = _key(request), notes_scope(request)
    dropped = await _notes(request).drop(scope, key)
    return tell(ForgottenBody(forgotten=int(dropped), placements_redacted=0))


def notes_scope(request: web.Request) -> str:
    """Return the scope in the query; without one it is tenant `default`, if it is one.

    Raises:
        Refused: it is none, or has to be named.
    """
    scope = request.query.get("scope")
    if scope is not None:
        return checked_scope(scope)
    if request.app[IN_FORCE].runtime().config.tenants:
        raise invalid("scope", "is missing: there are tenants (allowed: ?scope=tenant)")
    return "default"


def _notes(request: web.Request) -> WorkingMemory:
    notes = request.app[IN_FORCE].runtime().notes
    if notes is None:
        raise StoreFailed(store="memory", operation="open")
    return notes


def _key(request: web.Request) -> str:
    key = request.match_info["key"]
    if fault := key_fault(key):
        raise invalid("key", fault)
    return key
