"""What the ledger's bounds put out of a conversation that lives, told from a fault.

Rules:
- The evidence is the ledger's own: it holds less of the history than when the history
  was last sent. Where it holds as much, a change of ours is a bug.
- Only a break that nothing else explains is looked at: who goes on pays nothing.
"""

from msgspec.structs import replace

from deuz_compiler import Verdict
from deuz_proxy.calls import Call, Compiled, Known

UNEXPLAINED = "sidecar_changed"
_CAUSE = "evicted"


def tell_evicted(call: Call, known: Known, compiled: Compiled) -> Compiled:
    """Name the cause of a break of ours, if it is that the ledger holds less."""
    verdict, tried = compiled.verdict, compiled.tried_verdict
    if tried is None and (verdict is None or verdict.cause is None):
        # Nearly always: only a break has a cause.
        return compiled
    is_due = _is_unexplained(verdict) or _is_unexplained(tried)
    if not is_due or not _holds_less(call, known, compiled):
        return compiled
    return replace(
        compiled,
        verdict=_named(compiled.verdict),
        tried_verdict=_named(compiled.tried_verdict),
    )


def _holds_less(call: Call, known: Known, compiled: Compiled) -> bool:
    if call.envelope is None or compiled.sighting is None:
        return False
    latest = compiled.sighting.baselines[0]
    # What a shadow route holds is not what the others hold, and the rest hold nothing.
    is_other = (call.target.mode == "shadow") != (latest.tried is not None)
    if call.target.mode not in ("compile", "shadow") or is_other:
        return False
    end = call.envelope.lead + latest.inbound.count
    return sum(turn < end for turn in known.operations) < latest.entries


def _is_unexplained(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.cause == UNEXPLAINED


def _named(verdict: Verdict | None) -> Verdict | None:
    if verdict is None or not _is_unexplained(verdict):
        return verdict
    return replace(verdict, cause=_CAUSE)
