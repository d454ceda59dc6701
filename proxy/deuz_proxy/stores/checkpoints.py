"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- Progress is found by samples of the body at powers of two: conversations that only
  share a system prompt do not share a bucket once they have grown. What is found is
  then proved by all bytes up to its checkpoint.
- Bounded by count; the least recently used goes. Losing one costs time, never truth.
"""

from collections import OrderedDict

import xxhash

from deuz_compiler import Progress, Resumed, resume

_SMALLEST = 512
# Enough to tell most conversations apart; a hash of all that stands before would read
# the whole body twice more.
_SAMPLE_BYTES = 256
_MOST_IN_BUCKET = 4

Key = tuple[bytes, bytes]


class Checkpoints:
    """Progress by scope and start of the body. Used from the loop's thread only."""

    def __init__(self, *, max_entries: int = 4096) -> None:
        self._max_entries = max_entries
        self._buckets: OrderedDict[Key, tuple[Progress, ...]] = OrderedDict()

    def find(self, root: bytes, body: bytes) -> Resumed | None:
        """Return the longest progress that the body starts with, or None."""
        for digest in reversed(_samples(body, len(body))):
            key = root, digest
            for progress in self._buckets.get(key, ()):
                resumed = resume(progress, body)
                if resumed is not None:
                    self._buckets.move_to_end(key)
                    return resumed
        return None

    def keep(self, root: bytes, body: bytes, progress: Progress) -> None:
        """Remember how far this body was understood."""
        digests = _samples(body, progress.checkpoint.offset)
        if not digests:
            return
        key, digest = (root, digests[-1]), progress.checkpoint.digest
        others = self._buckets.get(key, ())
        if others:
            others = tuple([o for o in others if o.checkpoint.digest != digest])
        self._buckets[key] = (progress, *others)[:_MOST_IN_BUCKET]
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._max_entries:
            self._buckets.popitem(last=False)

    def __len__(self) -> int:
        """Return the number of buckets in use."""
        return len(self._buckets)


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
