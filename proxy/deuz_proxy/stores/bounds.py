"""How much a store may hold, and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a ledger may hold, and for how long after the last use."""

    max_entries: int
    max_bytes: int
    ttl_seconds: float
