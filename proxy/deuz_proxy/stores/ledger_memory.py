"""The ledger in this process: bounded by count, bytes and age, least recently used out.

Rules:
- Entries stand in the order of their last use, so the oldest is always the first: what
  expires and what is squeezed out leave from the front, one step per entry.
- Reading is using: a live conversation does not lose what it still shows. What was
  read before, and again within a minute or a tenth of the age, is left where it is.
- An entry is emptied when it is no longer what the ledger holds: whoever kept it sees
  that at once, and keeps no text.
- No method awaits anything, so a commit is seen whole or not at all.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deuz_compiler import Held, Operation, Reading, block_text
from deuz_proxy.observe.events import LedgerUsed, Listener
from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.entries import BARE

STORE = "memory"
# What one entry costs beside its operations: key, tuple, dictionary slot (measured as
# resident memory over 100 000 entries with keys of 16 bytes).
ENTRY_BYTES = 290

_LONGEST_TOUCH_SECONDS = 60.0

Weigh = Callable[[tuple[Operation, ...]], int]


@dataclass(slots=True, eq=False)
class _Entry:
    operations: tuple[Operation, ...]
    weight_bytes: int
    used_at: float
    text: bytes

    def empty(self) -> None:
        """Keep nothing of what the ledger does not hold any more."""
        self.operations, self.text = (), b""


class MemoryLedger:
    """A `ports.Ledger` without a store behind it; what it held ends with the process.

    `weigh` tells the bytes of an entry's operations. One event loop uses it.
    """

    def __init__(
        self,
        bounds: Bounds,
        *,
        weigh: Weigh,
        clock: Callable[[], float],
        tell: Listener,
    ) -> None:
        self._bounds = bounds
        self._weigh = weigh
        self._clock = clock
        self._tell = tell
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._held_bytes = 0
        # Another one whenever what is held is other than before.
        self._version = 0
        # Before then there is nothing to put out.
        self._expiring_at = -math.inf
        self._touch_seconds = min(_LONGEST_TOUCH_SECONDS, bounds.ttl_seconds / 10)

    def read_here(self, keys: Sequence[bytes], known: Reading | None = None) -> Reading:
        """Return what is held; `known` is what was of the first of these keys."""
        now = self._clock()
        if now >= self._expiring_at:
            self._expire(now)
        if known is not None and self._is_all(known, keys):
            held, used_at, digest = known.held, known.used_at, known.digest
            if now - used_at >= self._touch_seconds:
                self._found([keys[at] for at in held], now)
                used_at = now
        else:
            held, used_at, digest = self._found(keys, now), now, None
        self._say("read", len(held))
        return Reading(held, len(keys), self._version, used_at, digest)

    def _is_all(self, known: Reading, keys: Sequence[bytes]) -> bool:
        """Tell whether the keys hold what was read before, and nothing else."""
        held, holding = known.held, self._entries.keys()
        if known.version == self._version:
            # Nothing was kept nor let go: only of new keys it is not known.
            return holding.isdisjoint(keys[known.count :])
        for entry in held.values():
            if not entry.operations:
                return False
        return len(holding & keys) == len(held)

    def _found(self, keys: Sequence[bytes], now: float) -> dict[int, Held]:
        # Most turns of a long history hold nothing: a miss is one look-up.
        entries, use = self._entries, self._entries.move_to_end
        found: dict[int, Held] = {}
        for at in [at for at, key in enumerate(keys) if key in entries]:
            key = keys[at]
            found[at] = entry = entries[key]
            entry.used_at = now
            use(key)
        return found

    def held_here(self, keys: Sequence[bytes]) -> Reading:
        """Return what is held, and leave it where it is."""
        entries, used_at = self._entries, math.inf
        held: dict[int, Held] = {}
        for at in [at for at, key in enumerate(keys) if key in entries]:
            held[at] = entry = entries[keys[at]]
            # What was kept last is not all that is to be noted as used.
            used_at = entry.used_at if entry.used_at < used_at else used_at
        return Reading(held, len(keys), self._version, used_at)

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        """Return one tuple for each key, empty where nothing is stored."""
        held = self.read_here(keys).held
        return [held[at].operations if at in held else () for at in range(len(keys))]

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        """Replace what each key holds; an empty tuple removes the key.

        An entry larger than the whole ledger is not kept, and told as `full`: it would
        cost everything else and still not fit.
        """
        now = self._clock()
        self._expire(now)
        refused = sum(not self._put(key, held, now) for key, held in operations.items())
        self._say("commit", len(operations) - refused)
        if refused:
            self._say("commit", refused, status="full")
        self._squeeze()

    async def rewrite(
        self, change: Callable[[tuple[Operation, ...]], tuple[Operation, ...]]
    ) -> int:
        """Change what each key holds; places and times of last use stay."""
        changed = 0
        for key, entry in tuple(self._entries.items()):
            operations = change(entry.operations)
            if operations is not entry.operations:
                pairs = zip(entry.operations, operations, strict=True)
                changed += sum(old is not new for old, new in pairs)
                weight_bytes = self._weigh(operations) + ENTRY_BYTES
                self._held_bytes += weight_bytes - entry.weight_bytes
                self._entries[key] = _Entry(
                    operations, weight_bytes, entry.used_at, block_text(operations)
                )
                entry.empty()
                self._version += 1
        self._say("rewrite", changed)
        return changed

    async def close(self) -> None:
        """Forget everything. May be called twice."""
        for entry in self._entries.values():
            self._let_go(entry)
        self._entries.clear()

    def _put(self, key: bytes, held: tuple[Operation, ...], now: float) -> bool:
        # An equal request may have got a block meanwhile: that is what stays.
        if held == BARE:
            if key in self._entries:
                return True
            # Most of what is held: one value for all of them.
            held = BARE
        self._drop(key)
        if not held:
            return True
        weight_bytes = self._weigh(held) + ENTRY_BYTES
        if weight_bytes > self._bounds.max_bytes:
            return False
        self._entries[key] = _Entry(held, weight_bytes, now, block_text(held))
        self._version += 1
        self._held_bytes += weight_bytes
        return True

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._let_go(entry)

    def _let_go(self, entry: _Entry) -> None:
        self._version += 1
        self._held_bytes -= entry.weight_bytes
        entry.empty()

    def _expire(self, now: float) -> None:
        ttl_seconds = self._bounds.ttl_seconds
        self._evict(lambda: self._first().used_at <= now - ttl_seconds)
        oldest = self._first().used_at if self._entries else now
        self._expiring_at = oldest + ttl_seconds

    def _squeeze(self) -> None:
        bounds = self._bounds
        self._evict(
            lambda: (
                len(self._entries) > bounds.max_entries
                or self._held_bytes > bounds.max_bytes
            )
        )

    def _evict(self, is_due: Callable[[], bool]) -> None:
        evicted = 0
        while self._entries and is_due():
            _, entry = self._entries.popitem(last=False)
            self._let_go(entry)
            evicted += 1
        if evicted:
            self._say("evict", evicted)

    def _first(self) -> _Entry:
        return self._entries[next(iter(self._entries))]

    def _say(self, op: str, count: int, *, status: str = "ok") -> None:
        entries, held_bytes = len(self._entries), self._held_bytes
        self._tell(LedgerUsed(op, status, STORE, count, entries, held_bytes))
