"""What the ledger holds of a request that was kept, for the next one to go on with.

Rules:
- It is gone on with as what was read at a request that asks nothing: so it is what
  stands there, and no turn of the user's is undecided.
"""

from itertools import islice
from operator import is_

from msgspec.structs import replace

from deuz_compiler import Append, Bare, Reading, Standing
from deuz_proxy.calls import Call, Compiled
from deuz_proxy.observe.events import Placement
from deuz_proxy.placements import tell_stood
from deuz_proxy.runtime import Runtime
from deuz_proxy.undecided import undecided_turns

_STANDING = frozenset({Append, Bare})
_NOTHING_READ = Reading({}, 0)


def with_reading(
    call: Call, compiled: Compiled, standing: Standing, runtime: Runtime
) -> Standing:
    """Add what the ledger now holds of the history, if it is what stands there.

    The next request goes on with it as with what was read at one that asks nothing.
    """
    envelope, operations = call.envelope, compiled.operations
    if envelope is None or call.is_condensing:
        return standing
    reading = runtime.ledger.held_here(call.ledger_keys[: standing.turns])
    if reading is None or len(reading.held) != len(operations):
        return standing
    known, told = _told_before(call, reading)
    new = dict(islice(reading.held.items(), len(known.held), None))
    for turn, entry in new.items():
        held = entry.operations
        is_single = len(held) == 1 and type(held[0]) in _STANDING
        if not is_single or held is not operations.get(turn):
            return standing
    if undecided_turns(envelope, operations, since=known.count):
        return standing
    told += tell_stood({turn: entry.operations for turn, entry in new.items()})
    return replace(standing, reading=reading, told=told)


def _told_before(call: Call, reading: Reading) -> tuple[Reading, tuple[Placement, ...]]:
    """Return what was read before of the same, if it is held still, and what was told.

    It is what stood and was decided then: this request read the very entries as well.
    """
    before = call.resumed.standing if call.resumed else None
    if before is None or before.reading is None or not before.told:
        return _NOTHING_READ, ()
    held, known = reading.held, before.reading.held
    if len(known) > len(held) or not all(map(is_, known.values(), held.values())):
        return _NOTHING_READ, ()
    return before.reading, before.told
