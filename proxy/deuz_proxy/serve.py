"""The line: one request through the stages, in the order written here and only here.

Rules:
- A fault of ours before sending is answered by the client's own bytes (fail open), or,
  where the route says so, by a refusal.
- Whatever happens, an admitted request is told of exactly once.
"""

import asyncio

from msgspec.structs import replace

from deuz_proxy.calls import NOTHING_KNOWN, Call, Compiled, Incoming, Known, Totals
from deuz_proxy.compact import compact_ahead, due_scale
from deuz_proxy.errors import (
    ContextRefused,
    SidecarError,
    UpstreamBroken,
    UpstreamUnreachable,
)
from deuz_proxy.observe.events import FaultCaught, RequestStarted, UpstreamCall
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Client
from deuz_proxy.recover import Attempt, recover_call, tell_seen
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.admit import (
    admit_call,
    lift_call,
    read_body,
    take_body,
    unpack_call,
)
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.forward import forward_call
from deuz_proxy.stages.recall import is_recall_due, recall_context, recall_here
from deuz_proxy.stages.relay import Relay
from deuz_proxy.stages.settle import (
    Story,
    keep_call,
    learn_call,
    plain_finish,
    tell_call,
)

_CLIENT_CLOSED = 499
_NOT_COMPILED = Compiled(None)
_NOT_ANSWERED = Totals("client_closed", _CLIENT_CLOSED, 0, None)


async def serve_call(
    incoming: Incoming, client: Client, runtime: Runtime, watch: Watch
) -> None:
    """Serve one request.

    Raises:
        SidecarError: it could not be served; if the client has seen nothing yet, it is
            to be told, else its connection is to be broken.
    """
    watch.enter("admit")
    call = admit_call(incoming, runtime)
    runtime.notice(
        RequestStarted(call.id, call.target.route, wire_label(call), call.at)
    )
    story = Story(call, _NOT_COMPILED, watch, _NOT_ANSWERED)
    try:
        await _run(story, client, runtime)
    except Exception as fault:
        _note_failure(story, fault)
        raise
    finally:
        watch.enter("settle")
        _finish(story, runtime)


async def _run(story: Story, client: Client, runtime: Runtime) -> None:
    call, watch = story.call, story.watch
    if call.passthrough is None:
        call = take_body(call, runtime) or await _waited_for(call, runtime, watch)
        call = story.call = _understood(call, runtime)
    watch.enter("recall")
    # Most requests have nothing to wait for here, nor a coroutine to do it.
    known = (
        _recalled_here(call, runtime) or await _recalled(call, runtime)
        if is_recall_due(call, runtime)
        else NOTHING_KNOWN
    )
    watch.enter("compile")
    compiled = _compiled(call, known, runtime)
    if (scale := due_scale(call, compiled, runtime)) is not None:
        compiled = await compact_ahead(call, known, compiled, scale, (runtime, watch))
    story.compiled = compiled
    watch.enter("forward")
    sent = await forward_call(call, compiled.body, runtime, watch)
    try:
        watch.calls.append(sent.call)
        # A client that leaves in the second pass has got neither answer.
        attempt = Attempt(compiled, sent, tell_seen(sent))
        _note_attempt(story, attempt)
        if sent.overflow is not None:
            # The only second pass, and only while the client has not seen a byte.
            watch.enter("recover")
            attempt = await recover_call(call, known, attempt, runtime, watch)
            _note_attempt(story, attempt)
        await _answer(story, attempt, client, runtime)
    finally:
        sent.reply.close()


async def _answer(
    story: Story, attempt: Attempt, client: Client, runtime: Runtime
) -> None:
    """Keep what was accepted, then hand the answer through."""
    relay = Relay(attempt.sent, client, story.watch)
    try:
        if attempt.sent.is_accepted:
            story.watch.enter("settle")
            try:
                await keep_call(story.call, attempt.compiled, runtime)
            except Exception as fault:  # noqa: BLE001  # It has been accepted.
                _tell_fault(story.call, "settle", fault, runtime)
        story.watch.enter(None)
        story.totals = await relay.run()
    except asyncio.CancelledError:
        story.totals = relay.left()
        raise
    finally:
        attempt.sent.reply.close()


def _note_attempt(story: Story, attempt: Attempt) -> None:
    story.compiled = attempt.compiled
    story.sent = attempt.sent
    story.overflows = attempt.overflows


def _note_failure(story: Story, fault: Exception) -> None:
    """Tell a failed upstream from a request that the sidecar refused."""
    code = fault.code if isinstance(fault, SidecarError) else SidecarError.code
    status = fault.status if isinstance(fault, SidecarError) else SidecarError.status
    if isinstance(fault, UpstreamUnreachable | UpstreamBroken):
        story.totals = Totals("upstream_error", status, 0, None, error=code)
        seconds = story.watch.elapsed()
        failed = UpstreamCall(story.call.at, seconds, None, code)
        story.watch.calls.append(failed)
    else:
        story.totals = Totals("refused", status, 0, None, error=code)


def _finish(story: Story, runtime: Runtime) -> None:
    """Tell the request's story; what fails in it must not fail the request."""
    try:
        finished = tell_call(story, runtime)
        learn_call(story, finished, runtime)
    except Exception as fault:  # noqa: BLE001  # It has been served.
        _tell_fault(story.call, "settle", fault, runtime)
        finished = plain_finish(story)
    runtime.notice(finished)


async def _waited_for(call: Call, runtime: Runtime, watch: Watch) -> Call:
    call = await read_body(call, runtime, watch)
    try:
        return await unpack_call(call, runtime)
    except Exception as fault:  # noqa: BLE001  # Fail open: forwarded, not understood.
        _count_fault(call, "admit", fault, runtime)
        return replace(call, passthrough="fault")


def _understood(call: Call, runtime: Runtime) -> Call:
    try:
        return lift_call(call, runtime)
    except Exception as fault:  # noqa: BLE001  # Fail open: forwarded, not understood.
        _count_fault(call, "admit", fault, runtime)
        return replace(call, passthrough="fault")


def _recalled_here(call: Call, runtime: Runtime) -> Known | None:
    try:
        return recall_here(call, runtime)
    except Exception as fault:  # noqa: BLE001  # The way that waits may do without it.
        _tell_fault(call, "recall", fault, runtime)
        return None


async def _recalled(call: Call, runtime: Runtime) -> Known:
    try:
        return await recall_context(call, runtime)
    except Exception as fault:  # noqa: BLE001  # Fail open: counted, then without.
        _count_fault(call, "recall", fault, runtime)
        return Known(is_ledger_lost=True)


def _compiled(call: Call, known: Known, runtime: Runtime) -> Compiled:
    """Compile; if that fails without the new context, then the client's own bytes."""
    faults = 0
    for attempt in (known, replace(known, gathered=None)):
        try:
            compiled = compile_call(call, attempt, runtime)
        except ContextRefused:
            raise
        except Exception as fault:  # noqa: BLE001  # Fail open, counted.
            _count_fault(call, "compile", fault, runtime)
            faults += 1
        else:
            return replace(compiled, passthrough="fault") if faults else compiled
    return Compiled(call.body, passthrough="fault")


def _count_fault(call: Call, where: str, fault: Exception, runtime: Runtime) -> None:
    """Count the fault; on a route that fails closed it becomes a refusal.

    Raises:
        ContextRefused: the route does not forward what we failed on.
    """
    _tell_fault(call, where, fault, runtime)
    if call.target.is_closed_on_error and call.target.mode == "compile":
        raise ContextRefused(reason=f"fault in {where}") from fault


def _tell_fault(call: Call, where: str, fault: Exception, runtime: Runtime) -> None:
    code = getattr(fault, "code", SidecarError.code)
    runtime.notice(FaultCaught(call.target.route, where, str(code)))


def wire_label(call: Call) -> str:
    """Return the wire's name for telemetry: the API's, else the upstream's family."""
    return call.target.api or call.target.family
