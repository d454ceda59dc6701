"""A dry run: what would be added to a request, without sending or keeping anything.

Rules:
- It takes the line's own stages up to where the request would be sent.
- It is a new conversation of the scope: what the ledger holds of others is not told.
- Nothing is counted, and nothing is kept.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

import msgspec

from deuz_compiler import scope_root, seed_of
from deuz_proxy.calls import Call, Compiled, Headers, Known, Letterhead
from deuz_proxy.edge.admin_answers import (
    Refused,
    explained,
    invalid,
    read_model,
    tell,
)
from deuz_proxy.edge.admin_bodies import Decision, DryRun, DryRunBody, Fault
from deuz_proxy.edge.admin_web import Application, Request, Response
from deuz_proxy.errors import ContextRefused, UnknownUpstream
from deuz_proxy.observe.events import Event
from deuz_proxy.observe.vocabulary import SOURCE_FAILURES
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.admit import admit_call, lift_call
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.recall import recall_context

_JSON: Headers = ((b"content-type", b"application/json"),)


@dataclass(frozen=True, slots=True)
class GivenRequest:
    """A request that nobody sent."""

    target: str
    body: bytes
    method: str = "POST"
    headers: Headers = _JSON
    has_body: bool = True
    upgrade: bytes | None = None
    letterhead: Letterhead = field(default_factory=Letterhead)

    def body_here(self, *, limit_bytes: int) -> bytes | None:
        """Return the body."""
        return self.body

    async def read_body(self, *, limit_bytes: int) -> bytes:  # There.
        """Return the body."""
        return self.body

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yield the body."""
        yield self.body

    def inform(self, status: int, reason: bytes, headers: Headers) -> None:
        """Let it go: nothing is sent, so nothing is answered."""


def add_compile(app: Application, runtime: Callable[[], Runtime]) -> None:
    """Serve the dry run."""
    app.add("POST", "/api/v1/compile", explained(run_dry, runtime))


async def run_dry(request: Request, runtime: Runtime) -> Response:
    """Answer with what would be added."""
    body = await read_model(request, DryRunBody)
    runtime = replace(runtime, notice=_unheard)
    call = _admitted(body, runtime)
    known = await recall_context(call, runtime)
    try:
        compiled = compile_call(call, known, runtime)
    except ContextRefused as refused:
        raise _unserved(refused, known) from refused
    return tell(_told(known, compiled))


def _admitted(body: DryRunBody, runtime: Runtime) -> Call:
    """Return the request as the first stage leaves it, in its scope, to be compiled."""
    given = _given(body)
    try:
        call = admit_call(given, runtime)
    except UnknownUpstream as fault:
        raise invalid("path", str(fault)) from fault
    # A root of its own: no client's conversation has it.
    root = scope_root(b"dry-run", scope=f"dry-run\0{body.scope}")
    identity = msgspec.structs.replace(
        call.identity, root=root, seed=seed_of(root), scope=body.scope, is_known=True
    )
    target = replace(call.target, mode="compile")
    call = msgspec.structs.replace(
        call, identity=identity, target=target, body=given.body, is_apart=False
    )
    lifted = lift_call(call, runtime)
    if lifted.envelope is None:
        reason = lifted.passthrough
        raise invalid("body", f"is not understood as a request: {reason}")
    return lifted


def _unserved(refused: ContextRefused, known: Known) -> Refused:
    """Return the answer of a route that fails closed: not the question is wrong."""
    route = Fault(
        where="context",
        what=f"could not be added: {refused.reason}; with on_error: closed a request "
        "is refused alike",
    )
    answers = known.gathered.answers if known.gathered else ()
    sources = [
        Fault(
            where=f"source {answer.source}",
            what=f"did not answer: {answer.error or answer.status}; look at it there, "
            "trying again is harmless",
        )
        for answer in answers
        if answer.status in SOURCE_FAILURES
    ]
    return Refused(503, "context_refused", [route, *sources])


def _given(body: DryRunBody) -> GivenRequest:
    if (body.text is None) == (body.body is None):
        raise invalid("body", "has to have either text or body (allowed: one of both)")
    if body.body is not None:
        return GivenRequest(body.path, json.dumps(body.body).encode())
    turn = {"role": "user", "content": body.text}
    question = {"model": body.model, "max_tokens": 1024, "messages": [turn]}
    return GivenRequest("/v1/messages", json.dumps(question).encode())


def _told(known: Known, compiled: Compiled) -> DryRun:
    told = compiled.compile
    blocks = compiled.surface.blocks if compiled.surface else ()
    texts = [
        msgspec.json.decode(b'"%b"' % block.append.text, type=str) for block in blocks
    ]
    answers = known.gathered.answers if known.gathered else ()
    return DryRun(
        block="\n".join(texts),
        tokens=told.tokens if told else 0,
        budget_tokens=told.budget_tokens if told else 0,
        fallback=told.fallback if told else None,
        sources={answer.source: answer.status for answer in answers},
        records=[
            Decision(
                source=each.source,
                id=each.record_id,
                revision=each.revision,
                tokens=each.tokens,
                is_selected=each.is_selected,
                reason=each.reason,
            )
            for each in (told.records if told else ())
        ],
    )


def _unheard(event: Event) -> None:
    """Nothing of a dry run is counted."""
