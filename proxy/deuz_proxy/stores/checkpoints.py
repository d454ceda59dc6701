"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- Progress is found by a digest of all that stands ahead of a place (`Starts`), near
  enough to where it ended that few conversations still agree there. What is found is
  then proved by all bytes up to its checkpoint.
- Of a conversation there is where it stands, and where it stood before: an answer that
  is asked for again goes on from there.
- Conversations that are going on are kept as they are, the others packed, without the
  lineage keys, which their turns tell, and without where they stood before: a quarter
  of the memory.
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


class _Slot(msgspec.Struct, gc=False, eq=False):
    """One checkpoint and what is known up to it: as it is, or packed.

    What stands there is not packed: a conversation that rests is laid out anew. `key`
    is its bucket's, `earlier` where its conversation stood before.
    """

    key: bytes
    offset: int
    digest: bytes
    turns: int
    progress: Progress | None
    standing: Standing | None
    earlier: "_Slot | None" = None
    packed: bytes = b""

    def open(self, root: bytes) -> Progress:
        return self.progress or with_keys(_unpack(self.packed), root=root)

    def pack(self) -> None:
        if self.progress is not None:
            self.packed = _pack(without_keys(self.progress))
            self.progress = self.standing = None


class Checkpoints:
    """Progress by the start of the body. Used from the loop's thread only.

    `max_open_turns` bounds what is kept unpacked, some 120 bytes a turn: 64 histories
    of a megabyte, each twice. `max_bytes` bounds what is packed. Opening one of 64
    turns again takes 6 µs, but its blocks are then laid out anew.
    """

    def __init__(
        self,
        *,
        max_entries: int = 4096,
        max_open_turns: int = 100_000,
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
                    return Resumed(slot.open(starts.root), slot.standing, key)
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
        offset, digest = progress.checkpoint.offset, progress.checkpoint.digest
        key = starts.key(offset)
        if not key:
            return
        slot = _Slot(key, offset, digest, len(progress.keys), progress, standing)
        if resumed is not None:
            slot.earlier = self._go_on(resumed, slot)
        others = self._buckets.get(key)
        if others is not None:
            self._put(slot, others)
        else:
            self._buckets[key] = (slot,)
        self._open[slot] = None
        self._open_turns += slot.turns
        self._shrink()

    def _put(self, slot: _Slot, others: tuple[_Slot, ...]) -> None:
        """Put the slot ahead of others in its bucket, and in place of the same."""
        known = _at(slot.digest, others)
        if known is not None:
            self._forget(known)
            others = tuple([each for each in others if each is not known])
        for other in others[_MOST_IN_BUCKET - 1 :]:
            self._forget(other)
        self._buckets[slot.key] = (slot, *others[: _MOST_IN_BUCKET - 1])
        self._buckets.move_to_end(slot.key)

    def _go_on(self, resumed: Resumed, slot: _Slot) -> _Slot | None:
        """Return where the conversation stood; of where it stood before, let go."""
        digest = resumed.progress.checkpoint.digest
        found = _at(digest, self._buckets.get(resumed.place, ()))
        if found is None:
            return None
        earlier = found.earlier
        if found.digest == slot.digest and found.key == slot.key:
            return earlier
        if earlier is not None:
            found.earlier = None
            self._drop(earlier)
        return found

    def _drop(self, slot: _Slot) -> None:
        """Let go of a slot, or of what took its place, if it is there still."""
        bucket = self._buckets.get(slot.key, ())
        known = _at(slot.digest, bucket)
        if known is None:
            return
        self._forget(known)
        others = tuple([each for each in bucket if each is not known])
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
            if slot.earlier is not None:
                self._drop(slot.earlier)
                slot.earlier = None
        while len(self._buckets) > self._max_entries or self._bytes > self._max_bytes:
            _, bucket = self._buckets.popitem(last=False)
            for slot in bucket:
                self._forget(slot)

    def _forget(self, slot: _Slot) -> None:
        self._bytes -= len(slot.packed)
        if slot in self._open:
            del self._open[slot]
            self._open_turns -= slot.turns
        # A later one may still name it as where its conversation stood before.
        slot.progress = slot.standing = slot.earlier = None
        slot.packed = b""


def _at(digest: bytes, bucket: tuple[_Slot, ...]) -> _Slot | None:
    for slot in bucket:
        if slot.digest == digest:
            return slot
    return None
