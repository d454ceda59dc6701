"""Breaks of ours that nothing in the request explains, told from a fault.

Rules:
- The evidence is what was known when the history was last sent: whether anything was
  added to it, and what the ledger held of it. Where both are as they were, a change of
  ours is a bug.
- Only a break that nothing else explains is looked at: who goes on pays nothing.
"""

from typing import TypeGuard

from msgspec.structs import replace

from deuz_compiler import Baseline, Verdict, digest_held
from deuz_proxy.calls import Call, Compiled, Known

UNEXPLAINED = "sidecar_changed"


def tell_own_break(call: Call, known: Known, compiled: Compiled) -> Compiled:
    """Name the cause of a break of ours, if it is that the route or ledger changed."""
    verdict, tried = compiled.verdict, compiled.tried_verdict
    if tried is None and (verdict is None or verdict.cause is None):
        # Nearly always: only a break has a cause.
        return compiled
    baselines = compiled.sighting.baselines if compiled.sighting else ()
    if _is_unexplained(verdict):
        cause = _cause(call, known, compiled, baselines[0])
        compiled = replace(compiled, verdict=replace(verdict, cause=cause))
    if _is_unexplained(tried):
        # What would be sent was compared with the latest of what would have been.
        latest = next(each for each in baselines if each.tried is not None)
        cause = _cause(call, known, compiled, latest)
        compiled = replace(compiled, tried_verdict=replace(tried, cause=cause))
    return compiled


def _is_unexplained(verdict: Verdict | None) -> TypeGuard[Verdict]:
    return verdict is not None and verdict.cause == UNEXPLAINED


def _cause(call: Call, known: Known, compiled: Compiled, latest: Baseline) -> str:
    was_added = latest.held is not None, latest.tried is not None
    if was_added != (call.is_compiled, compiled.tried is not None):
        return "mode_changed"
    lead = call.envelope.lead if call.envelope else 0
    end = lead + latest.inbound.count
    held = {turn: each for turn, each in known.operations.items() if turn < end}
    if len(held) < latest.entries:
        return "evicted"
    return UNEXPLAINED if digest_held(held) == latest.held else "ledger_changed"
