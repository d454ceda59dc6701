"""Admit: read what came in, find out whose it is and what it asks for.

Rules:
- A body is read whole only where a route may look into it; all else streams through.
- Identity comes from the credential; a header may narrow the scope, never widen it.
- What is not understood is forwarded untouched, with a reason; so is what is signed.
- A compressed body is understood by a decoded copy; it goes on as it came.
"""

import hashlib
import re
from urllib.parse import parse_qsl

from msgspec.structs import replace

from deuz_compiler import (
    Envelope,
    NotLifted,
    PathFacts,
    Resumed,
    asks_to_condense,
    chain,
    lift,
    scope_root,
    seed_of,
    starts_of,
)
from deuz_proxy.calls import (
    Admission,
    Call,
    Identity,
    Incoming,
    Lines,
    first_values,
    header,
)
from deuz_proxy.config.endpoints import UNTOUCHED
from deuz_proxy.config.model import Config
from deuz_proxy.config.routing import Target, lowered, resolve_target
from deuz_proxy.holdout import with_group
from deuz_proxy.observe.inflate import (
    Undecodable,
    can_decode,
    content_codings,
    decode_body,
)
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime

_CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key", b"api-key")
# What the known clients send to name a session; a hint for side calls, never a key.
_SESSIONS = (
    b"x-claude-code-session-id",
    b"session-id",
    b"session_id",
    b"thread-id",
    b"x-session-id",
    b"x-opencode-session",
    b"x-conversation-id",
)
_PARENT = b"traceparent"
# Lines whose values decide, beside those that the config names.
_DECISIVE = frozenset({*_CREDENTIALS, *_SESSIONS, b"x-deuz-mode", b"content-encoding"})
_SIGNED = b"AWS4-"
_SCOPE_NAME = re.compile(rb"[A-Za-z0-9._@:+-]{1,128}")


def admit_call(incoming: Incoming, runtime: Runtime) -> Call:
    """Return the request as a call, told from its head: target and identity.

    Raises:
        UnknownUpstream: the path names an upstream that is not configured.
    """
    letterhead, at = incoming.letterhead, runtime.clock()
    admission = letterhead.admission
    if admission is None or admission.config is not runtime.config:
        admission = letterhead.admission = _admission(incoming, runtime.config)
    make_trace = runtime.new_trace
    # The first ones in the order of the fields: by name, each is looked for.
    return Call(
        runtime.new_id(),
        incoming,
        admission.target,
        admission.identity,
        None,
        incoming.headers,
        at,
        make_trace(admission.traceparent) if make_trace else None,
        admission.passthrough,
        is_apart=admission.is_apart,
        codings=admission.codings,
        is_signed=admission.is_signed,
    )


def _admission(incoming: Incoming, config: Config) -> Admission:
    """Return what the head decides; most of it, an earlier one may have decided."""
    letterhead = incoming.letterhead
    earlier = letterhead.earlier[0]
    if earlier is None or earlier.config is not config:
        return judge_head(incoming, config)
    changed = {name.lower() for (name, _), _ in letterhead.changes}
    if not earlier.decisive.isdisjoint(changed):
        return judge_head(incoming, config)
    if _PARENT not in changed:
        return earlier
    return replace(earlier, traceparent=_traceparent(header(incoming.headers, _PARENT)))


def judge_head(incoming: Incoming, config: Config) -> Admission:
    """Return what the request's head decides: where it goes, and whose it is.

    Raises:
        UnknownUpstream: the path names an upstream that is not configured.
    """
    headers = incoming.headers
    lines = first_values(headers)
    configured = resolve_target(config, incoming.target, headers)
    is_signed = _is_signed(configured, lines)
    if is_signed:
        configured = lowered(configured, b"observe")
    target = lowered(configured, lines.get(b"x-deuz-mode"))
    codings = content_codings(headers) if b"content-encoding" in lines else ()
    return Admission(
        config=config,
        target=target,
        identity=identify(lines, target, config),
        passthrough=_why_not_read(incoming, target, codings),
        traceparent=_traceparent(lines.get(_PARENT)),
        codings=codings,
        is_signed=is_signed,
        is_apart=configured.mode == "compile" and target.mode != "compile",
        decisive=_DECISIVE.union(
            [name.lower().encode() for name in config.scope.headers]
        ),
        names=frozenset(lines),
    )


def _traceparent(parent: bytes | None) -> str | None:
    return parent.decode("latin-1") if parent else None


def take_body(call: Call, runtime: Runtime) -> Call | None:
    """Return the call with its body; None where that is to be waited for, or unpacked.

    Raises:
        BodyTooLarge: the body is over the limit.
        RequestMalformed: the body's framing is broken.
    """
    if call.codings:
        return None
    limit_bytes = runtime.config.limits.max_body_bytes
    body = call.incoming.body_here(limit_bytes=limit_bytes)
    return None if body is None else replace(call, body=body)


async def read_body(call: Call, runtime: Runtime, watch: Watch) -> Call:
    """Return the call with its body, once that has come whole.

    Raises:
        BodyTooLarge: the body is over the limit.
        RequestMalformed: the body's framing is broken.
    """
    limit_bytes = runtime.config.limits.max_body_bytes
    body = call.incoming.body_here(limit_bytes=limit_bytes)
    if body is None:
        with watch.waiting():
            body = await call.incoming.read_body(limit_bytes=limit_bytes)
    return replace(call, body=body)


async def unpack_call(call: Call, runtime: Runtime) -> Call:
    """Return the call with its body decoded; else with why it is not."""
    body = call.body
    if body is None or not call.codings:
        return call
    limit_bytes = runtime.config.limits.max_body_bytes
    try:
        plain = await decode_body(body, call.codings, limit_bytes=limit_bytes)
    except Undecodable as fault:
        return replace(call, passthrough=fault.reason)
    return replace(call, body=plain, packed=body)


def lift_call(call: Call, runtime: Runtime) -> Call:
    """Return the call with the parts of its body; else with why there are none."""
    body, identity = call.body, call.identity
    if body is None or call.passthrough is not None:
        return call
    starts = starts_of(identity.root, body)
    resumed = runtime.checkpoints.find(starts)
    known = resumed.progress if resumed else None
    try:
        envelope = lift(
            call.target.api,
            body,
            seed=identity.seed,
            known=known.checkpoint if known else None,
            path=PathFacts(call.target.model, call.target.is_streamed),
        )
    except NotLifted as fault:
        return replace(call, passthrough=fault.reason)
    is_condensing = call.target.mode != "observe" and asks_to_condense(
        envelope, since=_unasking(resumed)
    )
    lifted = replace(
        call,
        envelope=envelope,
        chain=chain(envelope, root=identity.root, known=known.keys if known else ()),
        starts=starts,
        resumed=resumed,
        is_probe=_is_probe(envelope),
        is_condensing=is_condensing,
        passthrough="compaction" if is_condensing else _why_not_changed(call),
    )
    return with_group(lifted, runtime.config.context.holdout)


def _unasking(resumed: Resumed | None) -> int:
    """Return up to where it is known that nothing asks to condense the history.

    What was read of the ledger is gone on with only from requests that did not ask.
    """
    if resumed is None or resumed.standing is None or resumed.standing.reading is None:
        return 0
    return resumed.progress.checkpoint.offset


def identify(lines: Lines, target: Target, config: Config) -> Identity:
    """Return who asks: the root of all state keys, the tenant's scope, a session."""
    credential = _credential(lines, target)
    tenant = _tenant(credential, config)
    name = _scope_name(lines, config)
    # A name that cannot be one must not widen the scope to the whole tenant.
    is_missing = name == "" or (name is None and config.scope.required)
    scope = f"{tenant}/{name}" if name else str(tenant)
    # What cannot be a name is no scope, and has no history in common with one. Two APIs
    # at one upstream have none either: their caches differ.
    place = (target.upstream, target.api, scope, "" if name != "" else "?")
    root = scope_root(credential, scope="\0".join(place))
    session = None
    for named in _SESSIONS:
        if named in lines:
            session = lines[named]
            break
    return Identity(
        root=root,
        seed=seed_of(root),
        scope=scope,
        is_known=tenant is not None and not is_missing,
        session=hashlib.sha256(root + session).digest()[:16] if session else None,
    )


def _why_not_read(
    incoming: Incoming, target: Target, codings: tuple[bytes, ...]
) -> str | None:
    if target.mode == "off":
        return "off"
    if target.api in UNTOUCHED:
        return "signed"
    if not target.api or incoming.method != "POST" or not incoming.has_body:
        return "unknown_endpoint"
    if target.is_compaction:
        return "compaction"
    return None if can_decode(codings) else "unknown_encoding"


def _is_signed(target: Target, lines: Lines) -> bool:
    """Tell whether the body is sealed by a signature, so that no byte may change."""
    authorization = lines.get(b"authorization") or b""
    return target.api in UNTOUCHED or authorization.startswith(_SIGNED)


def _why_not_changed(call: Call) -> str | None:
    if call.target.mode != "observe":
        return None
    return "signed" if call.is_signed else "observe"


def _is_probe(envelope: Envelope) -> bool:
    """Tell a call that only tests a key or a quota: one token of answer."""
    return envelope.max_output_tokens == 1


def _credential(lines: Lines, target: Target) -> bytes:
    for name in _CREDENTIALS:
        value = lines.get(name)
        if value:
            return value.removeprefix(b"Bearer ").removeprefix(b"bearer ")
    query = dict(parse_qsl(target.path.partition("?")[2]))
    # No credential is a credential too: all such callers share one anonymous scope.
    return query.get("key", "").encode() or b"anonymous"


def _tenant(credential: bytes, config: Config) -> str | None:
    if not config.tenants:
        return "default"
    digest = "sha256:" + hashlib.sha256(credential).hexdigest()
    for name, tenant in config.tenants.items():
        if digest in tenant.keys:
            return name
    return None


def _scope_name(lines: Lines, config: Config) -> str | None:
    """Return the narrowing name, None if none was sent, "" if it cannot be one."""
    for name in config.scope.headers:
        value = lines.get(name.lower().encode())
        if value is not None:
            found = _SCOPE_NAME.fullmatch(value.strip())
            return found.group().decode() if found else ""
    return None
