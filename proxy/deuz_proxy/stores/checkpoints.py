"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- Progress is found by a digest of all that stands ahead of a place (`Starts`), near
  enough to where it ended that few conversations still agree there. What is found is
  then proved by all bytes up to its checkpoint.
- Of a conversation there is where it stands, and where it stood before: an answer that
  is asked for again goes on from there.
- Conversations that are going on are kept as they are, the others packed, without the
  lineage keys, which their turns tell: half the memory.
- Bounded by count and bytes; the least recently used goes. Losing one costs time, never
  truth.
"""

from collections import OrderedDict

import msgspec

from deuz_compiler import (
    Progress,
    Resumed,
    Standing,
    Starts,
    with_keys,
    without_keys,
)

# Those who agree for long, as with one system prompt, and stand at the same place.
_MOST_IN_BUCKET = 16

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Progress).decode

_Place = tuple[bytes, bytes]
"""A bucket's key, and the digest of the checkpoint in it."""


class _Slot:
    """One checkpoint and what is known up to it: as it is, or packed.

    What stands there is not packed: a conversation that rests is laid out anew. `key`
    is its bucket's, `earlier` where its conversation stood before.
    """

    __slots__ = (
        "digest",
        "earlier",
        "key",
        "offset",
        "packed",
        "progress",
        "standing",
        "turns",
    )

    def __init__(
        self, key: bytes, progress: Progress, standing: Standing | None
    ) -> None:
        self.key = key
        self.standing = standing
        self.offset = progress.checkpoint.offset
        self.digest = progress.checkpoint.digest
        self.turns = len(progress.keys)
        self.earlier: _Place | None = None
        self.progress: Progress | None = progress
        self.packed = b""

    def open(self, root: bytes) -> Progress:
        return self.progress or with_keys(_unpack(self.packed), root=root)

    def pack(self) -> None:
        if self.progress is not None:
            self.packed = _pack(without_keys(self.progress))
            self.progress = self.standing = None


class Checkpoints:
    """Progress by the start of the body. Used from the loop's thread only.

    `max_open_turns` bounds what is kept unpacked, some 120 bytes a turn; `max_bytes`
    what is packed. Opening one of 64 turns again takes 6 µs.
    """

    def __init__(
        self,
        *,
        max_entries: int = 4096,
        max_open_turns: int = 10_000,
        max_bytes: int = 67_108_864,
    ) -> None:
        self._max_entries = max_entries
        self._max_open_turns = max_open_turns
        self._max_bytes = max_bytes
        self._buckets: OrderedDict[bytes, tuple[_Slot, ...]] = OrderedDict()
        self._open: OrderedDict[_Slot, None] = OrderedDict()
        self._open_turns = 0
        self._bytes = 0

    def find(self, starts: Starts) -> Resumed | None:
        """Return the longest progress that the body starts with, or None."""
        buckets = self._buckets
        for key in starts.newest():
            for slot in buckets.get(key, ()):
                if starts.goes_on(slot.offset, slot.digest):
                    buckets.move_to_end(key)
                    return Resumed(slot.open(starts.root), slot.standing)
        return None

    def keep(
        self,
        starts: Starts,
        progress: Progress,
        standing: Standing | None = None,
        *,
        resumed: Resumed | None = None,
    ) -> None:
        """Remember how far this body was understood, and what stands there.

        `resumed` is what was found for it.
        """
        key = starts.key(progress.checkpoint.offset)
        if not key:
            return
        slot = _Slot(key, progress, standing)
        if resumed is not None:
            slot.earlier = self._go_on(starts, resumed, slot)
        if key in self._buckets:
            self._drop((key, slot.digest))
            bucket = (slot, *self._buckets.get(key, ()))
            for other in bucket[_MOST_IN_BUCKET:]:
                self._forget(other)
            self._buckets[key] = bucket[:_MOST_IN_BUCKET]
            self._buckets.move_to_end(key)
        else:
            self._buckets[key] = (slot,)
        self._open[slot] = None
        self._open_turns += slot.turns
        self._shrink()

    def _go_on(self, starts: Starts, resumed: Resumed, slot: _Slot) -> _Place | None:
        """Return where the conversation stood; of where it stood before, let go."""
        known = resumed.progress.checkpoint
        place = starts.key(known.offset), known.digest
        found = self._at(place)
        if found is None or place == (slot.key, slot.digest):
            return found.earlier if found else None
        if found.earlier is not None:
            self._drop(found.earlier)
            found.earlier = None
        return place

    def _at(self, place: _Place) -> _Slot | None:
        key, digest = place
        for slot in self._buckets.get(key, ()):
            if slot.digest == digest:
                return slot
        return None

    def _drop(self, place: _Place) -> None:
        slot = self._at(place)
        if slot is None:
            return
        self._forget(slot)
        others = tuple([each for each in self._buckets[slot.key] if each is not slot])
        if others:
            self._buckets[slot.key] = others
        else:
            del self._buckets[slot.key]

    def __len__(self) -> int:
        """Return the number of buckets in use."""
        return len(self._buckets)

    def _shrink(self) -> None:
        while self._open_turns > self._max_open_turns:
            slot, _ = self._open.popitem(last=False)
            self._open_turns -= slot.turns
            slot.pack()
            self._bytes += len(slot.packed)
        while len(self._buckets) > self._max_entries or self._bytes > self._max_bytes:
            _, bucket = self._buckets.popitem(last=False)
            for slot in bucket:
                self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        self._bytes -= len(slot.packed)
        if slot in self._open:
            del self._open[slot]
            self._open_turns -= slot.turns
