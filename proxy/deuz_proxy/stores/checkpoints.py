"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- A checkpoint is found by hashes of the body's start at powers of two: conversations
  that only share a system prompt do not share a bucket once they have grown.
- Bounded by count; the least recently used goes. Losing one costs time, never truth.
"""

from collections import OrderedDict

import xxhash

from deuz_compiler import Checkpoint

_SMALLEST = 512
_MOST_IN_BUCKET = 4

Key = tuple[bytes, bytes]


class Checkpoints:
    """Checkpoints by scope and start of the body. Used from the loop's thread only."""

    def __init__(self, *, max_entries: int = 4096) -> None:
        self._max_entries = max_entries
        self._buckets: OrderedDict[Key, tuple[Checkpoint, ...]] = OrderedDict()

    def find(self, root: bytes, body: bytes) -> Checkpoint | None:
        """Return the longest checkpoint that the body starts with, or None."""
        for digest in reversed(_digests(memoryview(body))):
            key = (root, digest)
            for checkpoint in self._buckets.get(key, ()):
                if checkpoint.is_prefix_of(body):
                    self._buckets.move_to_end(key)
                    return checkpoint
        return None

    def keep(self, root: bytes, body: bytes, checkpoint: Checkpoint) -> None:
        """Remember the checkpoint of this body."""
        digests = _digests(memoryview(body)[: checkpoint.offset])
        if not digests:
            return
        key = (root, digests[-1])
        others = tuple(
            other
            for other in self._buckets.get(key, ())
            if other.digest != checkpoint.digest
        )
        self._buckets[key] = (checkpoint, *others)[:_MOST_IN_BUCKET]
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._max_entries:
            self._buckets.popitem(last=False)

    def __len__(self) -> int:
        """Return the number of buckets in use."""
        return len(self._buckets)


def _digests(view: memoryview) -> list[bytes]:
    """Return the hash of the body's start at each power of two it reaches."""
    hasher = xxhash.xxh3_64()
    digests = []
    done, size = 0, _SMALLEST
    while size <= len(view):
        hasher.update(view[done:size])
        digests.append(hasher.digest())
        done, size = size, size * 2
    return digests
