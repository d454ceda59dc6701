"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- Progress is found by samples of the body at powers of two: conversations that only
  share a system prompt do not share a bucket once they have grown. What is found is
  then proved by all bytes up to its checkpoint.
- Conversations that are going on are kept as they are, the others packed, without the
  lineage keys, which their turns tell: half the memory.
- Bounded by count and bytes; the least recently used goes. Losing one costs time, never
  truth.
"""

from collections import OrderedDict
from collections.abc import Sequence

import msgspec
import xxhash

from deuz_compiler import (
    Progress,
    Resumed,
    Standing,
    hash_start,
    with_keys,
    without_keys,
)

_SMALLEST = 512
# Enough to tell most conversations apart; a hash of all that stands before would read
# the whole body twice more.
_SAMPLE_BYTES = 256
_MOST_IN_BUCKET = 4

Key = tuple[bytes, bytes]

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Progress).decode


class _Slot:
    """One checkpoint and what is known up to it: as it is, or packed.

    What stands there is not packed: a conversation that rests is laid out anew.
    """

    __slots__ = (
        "digest",
        "last_key",
        "offset",
        "packed",
        "progress",
        "standing",
        "turns",
    )

    def __init__(self, progress: Progress, standing: Standing | None) -> None:
        self.standing = standing
        self.offset = progress.checkpoint.offset
        self.digest = progress.checkpoint.digest
        self.turns = len(progress.keys)
        self.last_key = progress.keys[-1] if progress.keys else b""
        self.progress: Progress | None = progress
        self.packed = b""

    def open(self, root: bytes) -> Progress:
        return self.progress or with_keys(_unpack(self.packed), root=root)

    def is_start_of(self, keys: Sequence[bytes]) -> bool:
        """Tell whether these keys are of a conversation that went on from here."""
        return 0 < self.turns <= len(keys) and keys[self.turns - 1] == self.last_key

    def pack(self) -> None:
        if self.progress is not None:
            self.packed = _pack(without_keys(self.progress))
            self.progress = self.standing = None


class Checkpoints:
    """Progress by scope and start of the body. Used from the loop's thread only.

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
        self._buckets: OrderedDict[Key, tuple[_Slot, ...]] = OrderedDict()
        self._open: OrderedDict[_Slot, None] = OrderedDict()
        self._open_turns = 0
        self._bytes = 0

    def find(self, root: bytes, body: bytes) -> Resumed | None:
        """Return the longest progress that the body starts with, or None."""
        for digest in reversed(_samples(body, len(body))):
            key = root, digest
            for slot in self._buckets.get(key, ()):
                hasher = hash_start(body, slot.offset, slot.digest)
                if hasher is not None:
                    self._buckets.move_to_end(key)
                    return Resumed(slot.open(root), hasher, slot.standing)
        return None

    def keep(
        self,
        root: bytes,
        body: bytes,
        progress: Progress,
        standing: Standing | None = None,
    ) -> None:
        """Remember how far this body was understood, and what stands there."""
        digests = _samples(body, progress.checkpoint.offset)
        if not digests:
            return
        key, slot = (root, digests[-1]), _Slot(progress, standing)
        others = self._buckets.get(key)
        if others is None:
            self._buckets[key] = (slot,)
        else:
            self._buckets[key] = bucket = _with(slot, others, progress.keys)
            self._buckets.move_to_end(key)
            for other in others:
                if other not in bucket:
                    self._forget(other)
        self._open[slot] = None
        self._open_turns += slot.turns
        self._shrink()

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


def _with(
    slot: _Slot, others: Sequence[_Slot], keys: Sequence[bytes]
) -> tuple[_Slot, ...]:
    """Put the newest first; of where its conversation stood before, keep the last."""
    kept, is_behind = [slot], False
    for other in others:
        if other.digest == slot.digest:
            continue
        if other.is_start_of(keys):
            if is_behind:
                continue
            is_behind = True
        kept.append(other)
    return tuple(kept[:_MOST_IN_BUCKET])


def _samples(body: bytes, length: int) -> list[bytes]:
    """Return a digest for each power of two up to the length, of all samples so far."""
    digests: list[bytes] = []
    digest, start, size = b"", 0, _SMALLEST
    while size <= length:
        digest = xxhash.xxh3_64_digest(digest + body[start:size])
        digests.append(digest)
        size *= 2
        start = size - _SAMPLE_BYTES
    return digests
