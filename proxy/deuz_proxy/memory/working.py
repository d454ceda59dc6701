"""Working memory of a scope: notes under a key, changed by patches alone.

Rules:
- A key is a client's word or a conversation's id; in another scope it is another one.
- A patch is applied to what is there when it is written; who loses a race tries again,
  and the pure rules say whether it still fits.
"""

import math
import re
from collections.abc import Callable

from deuz_compiler import (
    Patched,
    Snapshot,
    apply_patch,
    create_snapshot,
    read_snapshot,
    write_snapshot,
)
from deuz_proxy.errors import StoreFailed
from deuz_proxy.memory.records import Notes

KEY_PATTERN = r"[A-Za-z0-9._@:+/-]{1,128}"
_KEY = re.compile(KEY_PATTERN)
_ATTEMPTS = 5
_LOOK_SECONDS = 1.0


class WorkingMemory:
    """The notes of all scopes. `clock` is Unix time."""

    def __init__(self, notes: Notes, *, clock: Callable[[], float]) -> None:
        self._notes = notes
        self._clock = clock
        self._is_in_use = False
        self._looked_at = -math.inf

    async def is_in_use(self) -> bool:
        """Tell whether there are notes at all: most sidecars never have any.

        Until there are, the store is looked at once a second, not for each request.

        Raises:
            StoreFailed: the store did not answer.
        """
        if not self._is_in_use and not self._was_looked_at:
            self._looked_at = self._clock()
            self._is_in_use = await self._notes.has_any()
        return self._is_in_use

    @property
    def is_known_empty(self) -> bool:
        """Whether there were no notes when the store was looked at, a moment ago."""
        return not self._is_in_use and self._was_looked_at

    @property
    def _was_looked_at(self) -> bool:
        # The clock may be set back.
        return 0 <= self._clock() - self._looked_at < _LOOK_SECONDS

    async def find(self, scope: str, key: str) -> Snapshot | None:
        """Return the notes under a key, if there are any.

        Raises:
            StoreFailed: the store did not answer, or holds what cannot be read.
        """
        held = await self._notes.load(scope, key)
        return None if held is None else read_snapshot(held)

    async def read(self, scope: str, key: str) -> Snapshot:
        """Return the notes under a key; where there are none, those of revision 0.

        Raises:
            StoreFailed: the store did not answer.
        """
        return await self.find(scope, key) or self._empty(scope)

    async def patch(self, scope: str, key: str, patch: object) -> Patched:
        """Apply a patch, given as a JSON value, and keep what became of the notes.

        Raises:
            MalformedInput: the patch breaks the form; every fault is listed.
            StoreFailed: the store did not answer, or others wrote without end.
        """
        for _ in range(_ATTEMPTS):
            held = await self._notes.load(scope, key)
            snapshot = self._empty(scope) if held is None else read_snapshot(held)
            patched = apply_patch(snapshot, patch, now=self._clock())
            if patched.status != "applied":
                return patched
            new = write_snapshot(patched.snapshot)
            if await self._notes.swap(scope, key, old=held, new=new):
                self._is_in_use = True
                return patched
        raise StoreFailed(store="memory", operation="patch")

    async def drop(self, scope: str, key: str) -> bool:
        """Remove the notes under a key; tell whether there were any.

        Raises:
            StoreFailed: the store did not answer, or others wrote without end.
        """
        for _ in range(_ATTEMPTS):
            held = await self._notes.load(scope, key)
            if held is None or await self._notes.swap(scope, key, old=held, new=None):
                return held is not None
        raise StoreFailed(store="memory", operation="drop")

    def _empty(self, scope: str) -> Snapshot:
        return create_snapshot(scope, now=self._clock())


def key_fault(key: str) -> str | None:
    """Return what is wrong with a key, None if nothing."""
    if _KEY.fullmatch(key):
        return None
    return "is not a key (allowed: 1 to 128 letters, digits and . _ @ : + / -)"
