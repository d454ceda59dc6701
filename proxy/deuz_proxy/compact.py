"""Compact: make a request smaller, by what the compiler plans and a summary says.

Rules:
- Ahead of an overflow only where it is configured, and where the estimate reaches the
  configured share of the window. An estimate shortens a request, it never refuses one.
- What would still be over that share is not tried: the next turn would try it again.
- Whatever fails ahead, the request goes on as it was.
- What was done is kept in the ledger once the request was accepted, so that the next
  turns of this history get it for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from msgspec.structs import replace

from deuz_compiler import (
    Bare,
    CompactionPolicy,
    Fold,
    Folded,
    Operation,
    Plan,
    Prune,
    kept_turns,
    plan_recovery,
    records_of,
    summary_body,
    view_turns,
)
from deuz_compiler import read_parts as read_wire_parts
from deuz_proxy.calls import Call, Compiled, Known
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.events import Compaction, FaultCaught
from deuz_proxy.observe.watch import Watch
from deuz_proxy.overflows import DEFAULT_OUTPUT_TOKENS, window_of
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.compile import lay_out
from deuz_proxy.summarize import summarize_fold

OWN_CAUSE = "overflow_recovery"
# Well below the share: the next turns should not reach it again at once.
_TARGET_PERCENT = 80

Operations = Mapping[int, tuple[Operation, ...]]


@dataclass(frozen=True, slots=True)
class Scale:
    """The window in the scale of our estimates, which differs from the provider's.

    `fit_tokens` is what the provider takes, `target_tokens` what to shrink to; None
    when neither an error nor the model table says.
    """

    fit_tokens: int | None
    target_tokens: int | None


async def compact_ahead(
    call: Call,
    known: Known,
    compiled: Compiled,
    scale: Scale,
    parts: tuple[Runtime, Watch],
) -> Compiled:
    """Return the request shortened to this scale, or as it was."""
    try:
        return await _shortened(call, known, compiled, scale, parts)
    except Exception as fault:  # noqa: BLE001  # Fail open: it goes on as it was.
        runtime, code = parts[0], getattr(fault, "code", SidecarError.code)
        runtime.notice(FaultCaught(call.target.route, "compile", str(code)))
    return compiled


def due_scale(call: Call, compiled: Compiled, runtime: Runtime) -> Scale | None:
    """Return what to shrink to; None where nothing is due, or no window is known."""
    share, envelope = runtime.config.overflow.compact_at, call.envelope
    if share is None or envelope is None or call.target.mode != "compile":
        return None
    window, outbound = window_of(call, runtime), compiled.outbound
    is_apart = call.is_probe or call.is_condensing or not call.identity.is_known
    if window is None or outbound is None or is_apart:
        return None
    estimated = outbound.total_tokens + compiled.tail_tokens
    actual = runtime.estimates.calibrated(envelope.model, estimated)
    room = window.room(envelope.max_output_tokens or DEFAULT_OUTPUT_TOKENS)
    most = int(Decimal(room) * share)
    if actual < max(1, most):
        return None
    fit = most * estimated // max(1, actual)
    return Scale(fit, fit * _TARGET_PERCENT // 100)


async def _shortened(
    call: Call,
    known: Known,
    compiled: Compiled,
    scale: Scale,
    parts: tuple[Runtime, Watch],
) -> Compiled:
    runtime, watch = parts
    plan = plan_compaction(call, compiled, scale, runtime)
    if not plan.effects or plan.effects[-1].tokens_after >= (scale.fit_tokens or 0):
        return compiled
    fold = await carry_out(call, plan, scale, runtime, watch)
    operations = with_plan(compiled.operations, plan, fold)
    shorter = lay_out(
        call, operations, runtime, own_cause=OWN_CAUSE, tail=compiled.tail
    )
    before, after = compiled.outbound, shorter.outbound
    if before is None or after is None or after.total_tokens >= before.total_tokens:
        return compiled
    alone = with_plan(known.operations, plan, fold)
    return replace(
        shorter,
        pending=to_keep(_changed(operations, known.operations), known),
        shortened=_changed(alone, known.operations),
        compile=compiled.compile,
        compactions=tell_layers(plan, fold, shorter, trigger="threshold"),
        is_ledger_lost=known.is_ledger_lost,
        passthrough=compiled.passthrough,
    )


def _changed(operations: Operations, before: Operations) -> Operations:
    return {at: held for at, held in operations.items() if held != before.get(at)}


def to_keep(operations: Operations, known: Known) -> Operations:
    """Return what of these may be kept: nothing over what could not be read."""
    return {} if known.is_ledger_lost else operations


def plan_compaction(
    call: Call, compiled: Compiled, scale: Scale, runtime: Runtime
) -> Plan:
    """Return what would make the request smaller, by the configured layers."""
    envelope, surface = call.envelope, compiled.surface
    if envelope is None or surface is None or compiled.outbound is None:
        return Plan()
    overflow = runtime.config.overflow
    policy = CompactionPolicy(
        layers=overflow.layers,
        keep_recent_steps=overflow.keep_recent_steps,
        target_tokens=scale.target_tokens,
        window_tokens=scale.fit_tokens,
        fixed_tokens=compiled.outbound.head_tokens,
        must_alternate=call.target.placement == "part",
        binds_thinking=runtime.models.binds_thinking(envelope.model),
    )
    history = view_turns(
        envelope.turns,
        envelope.body,
        lambda raw: read_wire_parts(envelope.wire, raw),
    )
    known = None
    if surface.fold is not None and surface.folded is not None:
        first_turn, last_turn = surface.folded
        text = surface.fold.plain_text
        known = Folded(
            first_turn,
            last_turn,
            summary_body(text) or text,
            kept=kept_turns(surface.fold, last_turn),
        )
    return plan_recovery(history, policy, known=known)


async def carry_out(
    call: Call, plan: Plan, scale: Scale, runtime: Runtime, watch: Watch
) -> Fold | None:
    """Ask for the plan's summary, if it has a fold; None without a good one."""
    if plan.fold is None:
        return None
    return await summarize_fold(
        call, plan.fold, runtime, watch, fit_tokens=scale.fit_tokens
    )


def with_plan(
    operations: Operations, plan: Plan, fold: Fold | None
) -> dict[int, tuple[Operation, ...]]:
    """Return the operations with the plan's stubs, and the fold it led to."""
    return _with_fold(_with_prunes(operations, plan), plan, fold)


def _with_prunes(
    operations: Operations, plan: Plan
) -> dict[int, tuple[Operation, ...]]:
    """Add the plan's stubs; a part that has one keeps it: its bytes are known."""
    result = dict(operations)
    for pruned in plan.prunes:
        held = result.get(pruned.turn, ())
        stubs = dict(pruned.stubs)
        for old in held:
            if isinstance(old, Prune):
                stubs.update(old.stubs)
        others = tuple(o for o in held if not isinstance(o, Prune))
        result[pruned.turn] = (Prune(tuple(sorted(stubs.items()))), *others)
    return result


def _with_fold(
    operations: dict[int, tuple[Operation, ...]], plan: Plan, fold: Fold | None
) -> dict[int, tuple[Operation, ...]]:
    if plan.fold is None or fold is None:
        return operations
    last = plan.fold.last
    others = tuple([o for o in operations.get(last, ()) if not _is_fold(o)])
    # Whatever was in sight up to there may have been repeated by what is summarised.
    seen = chain.from_iterable(
        held for turn, held in operations.items() if turn <= last
    )
    return {**operations, last: (*others, replace(fold, records=records_of(seen)))}


def _is_fold(operation: Operation) -> bool:
    """Tell whether it is one, or what was left of one."""
    is_left = isinstance(operation, Bare) and operation.folded > 0
    return isinstance(operation, Fold) or is_left


def tell_layers(
    plan: Plan, fold: Fold | None, second: Compiled, *, trigger: str
) -> tuple[Compaction, ...]:
    """Tell each layer with the tokens before and after it; the last with the truth."""
    effects = [e for e in plan.effects if e.layer != "summarize" or fold]
    final = second.outbound.total_tokens if second.outbound else 0
    return tuple(
        Compaction(
            effect.layer,
            trigger,
            effect.tokens_before,
            final if effect is effects[-1] else effect.tokens_after,
        )
        for effect in effects
    )
