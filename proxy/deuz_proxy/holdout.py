"""The holdout: conversations that are measured but left alone, to compare with.

Rules:
- A conversation's first turn decides, by its keyed hash: the same on every replica and
  after a restart. What goes on from it, forks too, stays in its group.
- Who is held out goes the whole way of a route that only tries: decided and told, the
  client's own bytes sent.
- Only what a route would change is compared: no probe, no call that asked for less.
"""

from dataclasses import replace as with_changes
from decimal import Decimal

from msgspec.structs import replace

from deuz_proxy.calls import Call

HELD_OUT, TREATED = "held_out", "treated"
_KEY_BYTES = 8


def with_group(call: Call, share: Decimal) -> Call:
    """Return the call with its group; without a holdout nobody has one."""
    if not share or not _is_compared(call):
        return call
    if _is_chosen(call, share):
        target = with_changes(call.target, mode="shadow")
        return replace(call, target=target, group=HELD_OUT)
    return replace(call, group=TREATED)


def _is_compared(call: Call) -> bool:
    envelope = call.envelope
    is_treatable = call.target.mode == "compile" and call.identity.is_known
    if envelope is None or not is_treatable or call.is_probe:
        return False
    return len(call.chain) > envelope.lead


def _is_chosen(call: Call, share: Decimal) -> bool:
    lead = call.envelope.lead if call.envelope else 0
    first = call.chain[lead][-_KEY_BYTES:]
    return int.from_bytes(first, "big") < share * (1 << 8 * _KEY_BYTES)
