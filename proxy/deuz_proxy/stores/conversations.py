"""What the shared tracker asks of the place that keeps its conversations.

Rules:
- Finding is one round trip, whatever the history's length: by the longest of its places
  that is known there, else by the session, else by the name that is known here.
- A conversation is saved by whoever saw its newest stamp; others find it first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

LONGEST_TEXT_BYTES = 262_144
"""A longer system text or list of tools is not shared; its changes have no name."""

MOST_TEXT_BYTES = 67_108_864
"""Of all shared texts: one that has the time in it is another one in each request."""

MOST_CONVERSATIONS = 10_000
"""As many as one process remembers."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A history, and what of it is known here.

    `keys` are its places that are longer than the longest one known here, of which
    `name` is the conversation, in the form that `stamp` numbers. `heads` are digests
    of texts that are here. `first` is its first place, if that is not known here.
    """

    keys: Sequence[bytes]
    session: bytes | None
    name: str | None
    stamp: int
    heads: Sequence[bytes]
    first: bytes | None = None


class Found(NamedTuple):
    """A conversation; `sealed` is None where it is what is known here already.

    A first place that is known may be another conversation's.
    """

    name: str
    stamp: int
    sealed: bytes | None
    texts: Sequence[tuple[bytes, bytes]]
    is_first_known: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """A conversation as it now is; `stamp` is of the form that it goes on from.

    `places` are new ones, `gone` those that it has no more.
    """

    name: str
    stamp: int
    sealed: bytes
    heads: tuple[bytes, ...]
    places: Sequence[bytes]
    gone: Sequence[bytes]
    session: bytes | None
    texts: Sequence[tuple[bytes, bytes]]


class Conversations(Protocol):
    """Where conversations are kept. What it raises is known to its gate."""

    async def find(self, ask: Ask, *, oldest: float) -> Found | None:
        """Return the conversation of a history, if it was used since."""

    async def save(self, save: Save, *, now: float, ttl_seconds: float) -> bool:
        """Keep a conversation; False: somebody else saved it meanwhile."""
