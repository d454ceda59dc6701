"""What a ledger asks of the place that keeps its entries as bytes.

Rules:
- A shelf knows keys, times and sealed bytes, no operations.
- Each method is one round trip but `rewrite`, which goes over everything.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from deuz_proxy.stores.bounds import Bounds

Totals = tuple[int, int]
"""Entries and bytes held."""

Found = Mapping[bytes, tuple[float, bytes]]
"""Time of last use and sealed bytes, of the keys that are there."""

Reseal = Callable[[bytes, bytes], tuple[bytes, int] | None]
"""From key and sealed bytes to new bytes and how many operations changed."""


class Put(NamedTuple):
    """What a key is to hold: nothing, if it is empty.

    A modest one leaves what is there already.
    """

    key: bytes
    sealed: bytes
    is_modest: bool


class Committed(NamedTuple):
    """What became of a commit: how many were too large, how many left for it."""

    refused: int
    evicted: int
    totals: Totals


class Shelf(Protocol):
    """Where sealed entries are kept. What it raises is known to its gate."""

    async def read(self, keys: Sequence[bytes]) -> tuple[Found, Totals]:
        """Return what is there of the keys."""

    async def commit(
        self,
        puts: Sequence[Put],
        touched: Mapping[bytes, float],
        bounds: Bounds,
        now: float,
    ) -> Committed:
        """Note uses, put or remove each key, within the bounds: all of it or none."""

    async def drop(self, damaged: Sequence[tuple[bytes, bytes]]) -> None:
        """Remove keys that still hold just these bytes."""

    async def rewrite(self, reseal: Reseal) -> tuple[int, Totals]:
        """Change every entry; return how many operations changed."""
