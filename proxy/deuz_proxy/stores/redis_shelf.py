"""The ledger's shelf in Redis or Valkey: each operation is one script, one round trip.

Rules:
- Entries expire by themselves a while after the ledger's own age, in case nobody comes
  back to count them out.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

from deuz_proxy.stores.bounds import Bounds
from deuz_proxy.stores.redis_scripts import COMMIT, DROP, ENTRY_BYTES, READ, REPLACE
from deuz_proxy.stores.redis_server import RedisServer
from deuz_proxy.stores.shelf import Committed, Found, Put, Reseal, Totals

_GRACE_SECONDS = 3600.0


class RedisShelf:
    """A `shelf.Shelf`; the server is its owner's. Each method may raise `FAULTS`."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._prefix = server.key(b"e", b"")
        self._used = server.key(b"used")
        self._total = server.key(b"bytes")
        self._sizes = server.key(b"sizes")

    async def read(self, keys: Sequence[bytes]) -> tuple[Found, Totals]:
        """Return what is there of the keys, which have one length.

        Raises:
            ValueError: they have not.
        """
        width, joined = len(keys[0]), b"".join(keys)
        if width * len(keys) != len(joined):
            raise ValueError("keys of one read have one length")
        entries, held, *rows = await self._server.run(
            READ, [self._used, self._total], [self._prefix, width, joined]
        )
        found: dict[bytes, tuple[float, bytes]] = {}
        for at, used, sealed in zip(*[iter(rows)] * 3, strict=True):
            found[keys[at]] = (float(used or "inf"), sealed)
        return found, (entries, held)

    async def commit(
        self,
        puts: Sequence[Put],
        touched: Mapping[bytes, float],
        bounds: Bounds,
        now: float,
    ) -> Committed:
        """Note uses, put or remove each key, within the bounds: one script."""
        head = [
            self._prefix,
            repr(now),
            repr(bounds.ttl_seconds),
            bounds.max_entries,
            bounds.max_bytes,
            int((bounds.ttl_seconds + _GRACE_SECONDS) * 1000),
            ENTRY_BYTES,
            len(touched),
        ]
        uses = chain.from_iterable((key, repr(at)) for key, at in touched.items())
        rest = chain.from_iterable((p.key, p.sealed, int(p.is_modest)) for p in puts)
        refused, evicted, entries, held = await self._server.run(
            COMMIT, self._keys(), [*head, *uses, *rest]
        )
        return Committed(refused, evicted, (entries, held))

    async def drop(self, damaged: Sequence[tuple[bytes, bytes]]) -> None:
        """Remove keys that still hold just these bytes."""
        pairs = chain.from_iterable(damaged)
        await self._server.run(DROP, self._keys(), [self._prefix, *pairs])

    async def rewrite(self, reseal: Reseal) -> tuple[int, Totals]:
        """Change every entry; one that is put anew meanwhile is looked at again."""
        changed, cursor = 0, 0
        seen: set[bytes] = set()
        while True:
            cursor, names = await self._server.scan(cursor, self._prefix)
            # A scan may show a key more than once.
            fresh = [name for name in names if name not in seen]
            seen.update(fresh)
            for name, sealed in zip(
                fresh, await self._server.values(fresh), strict=True
            ):
                changed += await self._reseal(name, sealed, reseal)
            if cursor == 0:
                break
        entries, held, *_ = await self._server.run(
            READ, [self._used, self._total], [self._prefix, 1, b""]
        )
        return changed, (entries, held)

    async def _reseal(self, name: bytes, sealed: bytes | None, reseal: Reseal) -> int:
        key = name.removeprefix(self._prefix)
        while sealed is not None and (other := reseal(key, sealed)) is not None:
            now = await self._server.run(
                REPLACE,
                self._keys(),
                [self._prefix, key, sealed, other[0], ENTRY_BYTES],
            )
            if now == other[0]:
                return other[1]
            sealed = now
        return 0

    def _keys(self) -> list[bytes]:
        return [self._used, self._total, self._sizes]
