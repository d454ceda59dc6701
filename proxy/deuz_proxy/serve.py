"""The line: one request through the stages, in the order written here and only here.

Rules:
- A fault of ours before sending is answered by the client's own bytes (fail open), or,
  where the route says so, by a refusal.
- Whatever happens, an admitted request is told of exactly once.
"""

import asyncio

from deuz_proxy.calls import Call, Compiled, Incoming, Known, Totals
from deuz_proxy.errors import ContextRefused, SidecarError
from deuz_proxy.observe.events import FaultCaught, RequestStarted
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Client
from deuz_proxy.recover import Attempt, recover_call
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.admit import admit_call
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.forward import forward_call
from deuz_proxy.stages.recall import recall_context
from deuz_proxy.stages.relay import Relay
from deuz_proxy.stages.settle import Story, finish_call, keep_call

_CLIENT_CLOSED = 499


async def serve_call(
    incoming: Incoming, client: Client, runtime: Runtime, watch: Watch
) -> None:
    """Serve one request.

    Raises:
        SidecarError: it could not be served; if the client has seen nothing yet, it is
            to be told, else its connection is to be broken.
    """
    with watch.stage("admit"):
        call = await admit_call(incoming, runtime, watch)
    runtime.notice(
        RequestStarted(call.id, call.target.route, wire_label(call), call.at)
    )
    story = Story(call, Compiled(call.body), watch, _unanswered("client_closed"))
    try:
        await _run(story, client, runtime)
    except SidecarError as fault:
        story.totals = _unanswered("refused", status=fault.status, error=fault.code)
        raise
    finally:
        with watch.stage("settle"):
            finish_call(story, runtime)


async def _run(story: Story, client: Client, runtime: Runtime) -> None:
    call, watch = story.call, story.watch
    with watch.stage("recall"):
        known = await _recalled(call, runtime)
    with watch.stage("compile"):
        compiled = _compiled(call, known, runtime)
        story.compiled = compiled
    with watch.stage("forward"):
        sent = await forward_call(call, compiled.body, runtime, watch)
    attempt = Attempt(compiled, sent, upstream_calls=(sent.call,))
    if sent.overflow is not None:
        # The only second pass, and only while the client has not seen a byte.
        with watch.stage("recover"):
            attempt = await recover_call(call, known, attempt, runtime, watch)
    _note_attempt(story, attempt)
    if attempt.sent.is_accepted:
        with watch.stage("settle"):
            await _kept(call, attempt.compiled, runtime)
    relay = Relay(attempt.sent, client, watch)
    try:
        story.totals = await relay.run()
    except asyncio.CancelledError:
        story.totals = relay.totals("client_closed")
        raise


def _note_attempt(story: Story, attempt: Attempt) -> None:
    story.compiled = attempt.compiled
    story.sent = attempt.sent
    story.overflows = attempt.overflows
    story.upstream_calls = attempt.upstream_calls


async def _recalled(call: Call, runtime: Runtime) -> Known:
    try:
        return await recall_context(call, runtime)
    except Exception as fault:  # noqa: BLE001  # Fail open: counted, then without.
        _count_fault(call, "recall", fault, runtime)
        return Known()


def _compiled(call: Call, known: Known, runtime: Runtime) -> Compiled:
    try:
        return compile_call(call, known, runtime)
    except ContextRefused:
        raise
    except Exception as fault:  # noqa: BLE001  # Fail open: the client's own bytes.
        _count_fault(call, "compile", fault, runtime)
        return Compiled(call.body, passthrough="fault")


async def _kept(call: Call, compiled: Compiled, runtime: Runtime) -> None:
    try:
        await keep_call(call, compiled, runtime)
    except Exception as fault:  # noqa: BLE001  # It has been accepted: it is answered.
        code = getattr(fault, "code", "sidecar_fault")
        runtime.notice(FaultCaught(call.target.route, "settle", str(code)))


def _count_fault(call: Call, where: str, fault: Exception, runtime: Runtime) -> None:
    """Count the fault; on a route that fails closed it becomes a refusal.

    Raises:
        ContextRefused: the route does not forward what we failed on.
    """
    code = getattr(fault, "code", "sidecar_fault")
    runtime.notice(FaultCaught(call.target.route, where, str(code)))
    if call.target.is_closed_on_error and call.target.mode == "compile":
        raise ContextRefused(reason=f"fault in {where}") from fault


def _unanswered(
    outcome: str, *, status: int = _CLIENT_CLOSED, error: str | None = None
) -> Totals:
    return Totals(outcome, status, 0, None, error=error)


def wire_label(call: Call) -> str:
    """Return the wire's name for telemetry: the API's, else the upstream's family."""
    return call.target.api or call.target.family
