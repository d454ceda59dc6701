"""Recover: one second pass after an overflow, before the client has seen a byte.

Rules:
- One attempt for a request: a second overflow means that our estimate is wrong.
- What cannot help is not tried; whatever fails on the way, the client gets the first
  answer, byte for byte: agents key their own compaction on its wording.
- What helped is kept in the ledger, so that the next turns of this history get it for
  nothing.
"""

import msgspec
from msgspec.structs import replace

from deuz_compiler import (
    Bare,
    OverflowSignal,
)
from deuz_proxy.calls import Call, Compiled, Known, Sent
from deuz_proxy.compact import (
    OWN_CAUSE,
    Operations,
    Scale,
    carry_out,
    plan_compaction,
    tell_layers,
    to_keep,
    with_plan,
)
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.events import FaultCaught, Overflow, UpstreamCall
from deuz_proxy.observe.watch import Watch
from deuz_proxy.overflows import window_of
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import add_context, keep_tail, lay_out, stay_bare
from deuz_proxy.stages.forward import forward_call

# Shorter history helps against these; against a too large answer limit it does not.
_CURABLE = frozenset({"history", "either", "bytes"})
# Half of what fits: the next turns should not overflow again at once.
_TARGET_PERCENT = 50
_FIRST_BAD = 400


class Attempt(msgspec.Struct, frozen=True):
    """A request as it was sent and what came back; the first one, or the second."""

    compiled: Compiled
    sent: Sent
    overflows: tuple[Overflow, ...] = ()


async def recover_call(
    call: Call, known: Known, first: Attempt, runtime: Runtime, watch: Watch
) -> Attempt:
    """Make the request smaller and send it once more; else return the first attempt."""
    signal = first.sent.overflow
    if signal is None or call.envelope is None:
        return first
    try:
        return await _try_again(call, known, first, runtime, watch)
    except Exception as fault:  # noqa: BLE001  # There is an answer to give.
        _tell_fault(call, fault, runtime)
    return _surfaced(first, signal)


async def _try_again(
    call: Call, known: Known, first: Attempt, runtime: Runtime, watch: Watch
) -> Attempt:
    signal = _signal(first)
    if signal.cure not in _CURABLE:
        return _surfaced(first, signal)
    scale = _scale(call, first, runtime)
    plan = plan_compaction(call, first.compiled, scale, runtime)
    if plan.cannot_fit:
        return _surfaced(first, signal, outcome="cannot_fit")
    # What was made shorter ahead is not in the ledger yet, and has to get there.
    held = {**known.operations, **first.compiled.shortened}
    fold = await carry_out(call, plan, scale, runtime, watch)
    operations = with_plan(held, plan, fold)
    second = _condensed(
        first, operations, call=call, known=known, scale=scale, runtime=runtime
    )
    if second is None:
        return _surfaced(first, signal)
    told = tell_layers(plan, fold, second, trigger="overflow")
    second = replace(second, compactions=(*first.compiled.compactions, *told))
    return await _send_again(call, first, second, runtime, watch)


async def _send_again(
    call: Call, first: Attempt, second: Compiled, runtime: Runtime, watch: Watch
) -> Attempt:
    """Send the smaller request; whatever but acceptance leaves the first answer."""
    signal = _signal(first)
    started_at, start = runtime.clock(), runtime.monotonic()
    try:
        sent = await forward_call(call, second.body, runtime, watch)
    except SidecarError as fault:
        _tell_fault(call, fault, runtime)
        seconds = runtime.monotonic() - start
        failed = UpstreamCall(started_at, seconds, None, fault.code, purpose="retry")
        watch.calls.append(failed)
        return _surfaced(first, signal)
    watch.calls.append(replace(sent.call, purpose="retry"))
    if not sent.is_accepted:
        sent.reply.close()
        return _surfaced(first, signal)
    return Attempt(second, sent, (_told(first.sent, signal, "recovered"),))


def tell_seen(sent: Sent) -> tuple[Overflow, ...]:
    """Return the overflow of an answer about which nothing was done yet."""
    return () if sent.overflow is None else (_told(sent, sent.overflow, "observed"),)


def _tell_fault(call: Call, fault: Exception, runtime: Runtime) -> None:
    code = getattr(fault, "code", SidecarError.code)
    runtime.notice(FaultCaught(call.target.route, "recover", str(code)))


def _scale(call: Call, first: Attempt, runtime: Runtime) -> Scale:
    """Return what fits, in our tokens: the error's own numbers win over any table."""
    signal, outbound, envelope = _signal(first), first.compiled.outbound, call.envelope
    if outbound is None or envelope is None:
        return Scale(None, None)
    limit = signal.limit_tokens
    if limit is None:
        window = window_of(call, runtime)
        limit = window.room(envelope.max_output_tokens or 0) if window else None
    if limit is None:
        return Scale(None, None)
    estimated = outbound.total_tokens
    actual = signal.requested_tokens
    if actual is None or actual <= limit:
        actual = max(limit + 1, runtime.estimates.calibrated(envelope.model, estimated))
    fit = limit * estimated // max(1, actual)
    return Scale(fit, fit * _TARGET_PERCENT // 100)


def _condensed(
    first: Attempt,
    operations: Operations,
    *,
    call: Call,
    known: Known,
    scale: Scale,
    runtime: Runtime,
) -> Compiled | None:
    """Lay out the condensed request; None if it did not become smaller.

    New context is compiled anew for what is free now, not taken over.
    """
    pending = {i: o for i, o in operations.items() if o != known.operations.get(i)}
    pending |= stay_bare(known.undecided, operations)
    told = first.compiled.compile
    # What the first request could not get for a fault of ours, this one cannot either.
    if told and known.gathered is not None and known.place is not None:
        gathered = replace(known.gathered, refresh_reason="overflow-retry")
        condensed = replace(
            known,
            operations=operations,
            gathered=gathered,
            tail=first.compiled.tail,
        )
        bare = lay_out(call, operations, runtime, own_cause=OWN_CAUSE)
        free = _free_tokens(bare, scale)
        block, told = add_context(call, condensed, runtime, free_tokens=free)
        pending[known.place] = (*operations.get(known.place, ()), block or Bare())
    tail = first.compiled.tail
    pending = keep_tail(tail, pending, operations)
    operations = {**operations, **pending}
    compiled = lay_out(call, operations, runtime, own_cause=OWN_CAUSE, tail=tail)
    before, after = first.compiled.outbound, compiled.outbound
    if before is None or after is None or after.total_tokens >= before.total_tokens:
        return None
    return replace(
        compiled,
        pending=to_keep(pending, known),
        compile=told,
        is_ledger_lost=known.is_ledger_lost,
        passthrough=first.compiled.passthrough,
    )


def _free_tokens(bare: Compiled, scale: Scale) -> int | None:
    if scale.fit_tokens is None or bare.outbound is None:
        return None
    return max(0, scale.fit_tokens - bare.outbound.total_tokens)


def _signal(attempt: Attempt) -> OverflowSignal:
    if attempt.sent.overflow is None:
        raise ValueError("this attempt did not overflow")
    return attempt.sent.overflow


def _surfaced(
    first: Attempt, signal: OverflowSignal, *, outcome: str = "surfaced"
) -> Attempt:
    return replace(first, overflows=(_told(first.sent, signal, outcome),))


def _told(sent: Sent, signal: OverflowSignal, outcome: str) -> Overflow:
    is_refused = sent.reply.status >= _FIRST_BAD
    stage = "rejected" if is_refused else "in_stream"
    return Overflow(stage, outcome, signal.limit_tokens, signal.requested_tokens)
