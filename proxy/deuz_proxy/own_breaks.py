"""Breaks of ours that nothing in the request explains, told from a fault.

Rules:
- The evidence is what was known when the history was last sent: whether anything was
  added to it, and what the ledger held of it. Where both are as they were, a change of
  ours is a bug.
- Of a history that ends or changes ahead of what was last sent the ledger is asked for
  less than it was then. There nothing proves a bug: the break tells what became of it.
- Only a break that nothing else explains is looked at: who goes on pays nothing.
"""

from collections.abc import Sequence
from typing import TypeGuard

from msgspec.structs import replace

from deuz_compiler import Baseline, Verdict, digest_held
from deuz_proxy.calls import Call, Compiled, Known
from deuz_proxy.predicting import tried_baselines

UNEXPLAINED = "sidecar_changed"


def tell_own_break(call: Call, known: Known, compiled: Compiled) -> Compiled:
    """Name the cause of a break of ours, if it is that the route or ledger changed."""
    verdict, tried = compiled.verdict, compiled.tried_verdict
    if tried is None and (verdict is None or verdict.cause is None):
        # Nearly always: only a break has a cause.
        return compiled
    baselines = compiled.sighting.baselines if compiled.sighting else ()
    if _is_unexplained(verdict):
        told = _told(call, known, compiled, verdict, baselines)
        compiled = replace(compiled, verdict=told)
    if _is_unexplained(tried):
        # As if what was only tried had been sent.
        sent = replace(compiled, outbound=compiled.tried)
        told = _told(call, known, sent, tried, tried_baselines(baselines))
        compiled = replace(compiled, tried_verdict=told)
    return compiled


def _is_unexplained(verdict: Verdict | None) -> TypeGuard[Verdict]:
    return verdict is not None and verdict.cause == UNEXPLAINED


def _told(
    call: Call,
    known: Known,
    compiled: Compiled,
    verdict: Verdict,
    baselines: Sequence[Baseline],
) -> Verdict:
    latest, inbound = baselines[0], compiled.inbound
    was_added = latest.held is not None, latest.tried is not None
    if was_added != (call.is_compiled, compiled.tried is not None):
        cause = "mode_changed"
    elif inbound and not inbound.digests.startswith(latest.inbound.digests):
        cause = _cause_in_part(latest, compiled, verdict.index or 0)
    else:
        cause = _cause(call, known, latest)
    return replace(verdict, cause=cause)


def _cause(call: Call, known: Known, latest: Baseline) -> str:
    """Tell it of a history that goes on from all that was sent."""
    lead = call.envelope.lead if call.envelope else 0
    end = lead + latest.inbound.count
    held = {turn: each for turn, each in known.operations.items() if turn < end}
    if len(held) < latest.entries:
        return "evicted"
    return UNEXPLAINED if digest_held(held) == latest.held else "ledger_changed"


def _cause_in_part(latest: Baseline, compiled: Compiled, element: int) -> str:
    """Tell it of one that ends or changes earlier, by what stands there now."""
    if compiled.inbound is None or compiled.outbound is None:
        return UNEXPLAINED
    ahead = latest.turns_ahead(element)
    if ahead is None:
        return "overflow_recovery"
    own = compiled.inbound.elements[ahead : ahead + 1]
    is_gone = compiled.outbound.elements[element : element + 1] == own
    return "evicted" if is_gone else "ledger_changed"
