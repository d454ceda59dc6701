"""Where bodies were understood up to, so that their next request costs its new bytes.

Rules:
- Progress is found by a digest of all that stands ahead of a place (`Starts`), near
  enough to where it ended that few conversations still agree there. What is found is
  then proved by all bytes up to its checkpoint.
- Of a conversation there is what is known up to where it stands, and the place where it
  stood before: an answer that is asked for again goes on from there. What is known up
  to that place is a part of what is known up to here.
- A conversation that goes on keeps its slot, whose values are the ones of its newest
  request: those of the last one are let go while they are at hand.
- Conversations that are going on are kept as they are. Of one that rests there is what
  nothing else tells (`Resting`), and not where it stood before: a fifth of the memory.
  A short body of short turns is let go of, and read anew when it comes back.
- Bounded by count and bytes; the least recently used goes. Losing one costs time, never
  truth.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import cast

import msgspec

from deuz_compiler import (
    Progress,
    Resting,
    Resumed,
    Standing,
    Starts,
    progress_up_to,
    rest,
    standing_up_to,
    wake,
)

# Those who agree for long, as with one system prompt, and stand at the same place.
_MOST_IN_BUCKET = 16
# At rest a conversation takes 500 bytes, and 29 a turn: what these stand for is at
# least twenty times as long. What is less is read anew, 100 KB in 0.2 ms, but never
# that much: many long ones that are going on put out each other at every request.
_LEAST_BYTES, _LEAST_TURN_BYTES = 10_000, 1_500
_MOST_ANEW_BYTES = 262_144
# Half of each place is kept.
_MOST_BYTES = 2**32


class _Place(msgspec.Struct, frozen=True, gc=False):
    """Where a conversation stood: its bucket's key, and what a body is proved by."""

    key: bytes
    offset: int
    digest: bytes
    turns: int


# No struct: those take ten times as long to set a value of.
@dataclass(slots=True, eq=False)
class _Slot:
    """Where a conversation stands and what is known up to there: as it is, or resting.

    What stands there is not kept at rest: it is laid out anew then. `key` is its
    bucket's, `earlier` where the conversation stood before: of one that rests, that is
    not known.
    """

    key: bytes
    offset: int
    digest: bytes
    turns: int = 0
    progress: Progress | None = None
    standing: Standing | None = None
    earlier: _Place | None = None
    resting: Resting | None = None

    @property
    def weight_bytes(self) -> int:
        return self.resting.weight_bytes if self.resting else 0

    def open(self, root: bytes) -> Progress:
        if self.progress is not None:
            return self.progress
        resting = cast("Resting", self.resting)
        return wake(resting, offset=self.offset, digest=self.digest, root=root)

    def resume_earlier(self, place: _Place, root: bytes) -> Resumed:
        """Return what is known up to where the conversation stood before.

        Who goes on from there leaves it as it is: it is a branch.
        """
        turns, standing = place.turns, self.standing
        progress = progress_up_to(
            self.open(root), turns, offset=place.offset, digest=place.digest
        )
        return Resumed(progress, standing and standing_up_to(standing, turns))


class Checkpoints:
    """Progress by the start of the body. Used from the loop's thread only.

    Of conversations that are going on `max_open` are kept, and `max_open_turns`, some
    120 bytes a turn: 128 histories of a megabyte. `max_bytes` bounds what rests. Waking
    one of 64 turns takes 8 µs, and its blocks are then laid out anew.
    """

    def __init__(
        self,
        *,
        max_entries: int = 4096,
        max_open: int = 1_024,
        max_open_turns: int = 100_000,
        max_bytes: int = 67_108_864,
    ) -> None:
        self._max_entries = max_entries
        self._max_open = max_open
        self._max_open_turns = max_open_turns
        self._max_bytes = max_bytes
        # A slot is in the bucket of where it stands, and in that of where it stood.
        self._buckets: OrderedDict[bytes, tuple[_Slot, ...]] = OrderedDict()
        self._open: OrderedDict[_Slot, None] = OrderedDict()
        self._open_turns = 0
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of buckets in use."""
        return len(self._buckets)

    def find(self, starts: Starts) -> Resumed | None:
        """Return the longest progress that the body starts with, or None."""
        buckets = self._buckets
        slots_at = buckets.get
        for key in starts.newest():
            slots = slots_at(key)
            if slots is None:
                continue
            for slot in slots:
                if slot.key == key and starts.goes_on(slot.offset, slot.digest):
                    buckets.move_to_end(key)
                    progress = slot.progress or slot.open(starts.root)
                    return Resumed(progress, slot.standing, slot)
                place = slot.earlier
                if place is None or place.key != key:
                    continue
                if starts.goes_on(place.offset, place.digest):
                    buckets.move_to_end(key)
                    return slot.resume_earlier(place, starts.root)
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
        key, turns = starts.key(offset), len(progress.keys)
        if not key:
            return
        slot = _origin(resumed, turns) if resumed is not None else None
        if slot is None:
            slot = _at(digest, self._buckets.get(key, ()))
            if slot is None:
                slot = _Slot(key, offset, digest)
                self._enter(slot, key)
        elif slot.digest != digest:
            self._go_on(slot, key)
            slot.key, slot.offset, slot.digest = key, offset, digest
        if slot.progress is not None:
            self._open.move_to_end(slot)
            self._open_turns -= slot.turns
        else:
            self._open[slot] = None
            self._bytes -= slot.weight_bytes
            slot.resting = None
        self._open_turns += turns
        slot.turns, slot.progress, slot.standing = turns, progress, standing
        if (
            self._open_turns > self._max_open_turns
            or len(self._open) > self._max_open
            or len(self._buckets) > self._max_entries
        ):
            self._shrink()

    def _go_on(self, slot: _Slot, key: bytes) -> None:
        """Take where the slot stands for where it stood; what was that, let go."""
        last, earlier = slot.key, slot.earlier
        if earlier is not None and earlier.key != last:
            self._leave(slot, earlier.key)
        slot.earlier = _Place(last, slot.offset, slot.digest, slot.turns)
        if key != last:
            self._enter(slot, key)

    def _enter(self, slot: _Slot, key: bytes) -> None:
        """Put the slot ahead of others in this bucket, and the last ones out of it."""
        others = self._buckets.get(key, ())
        self._put_out(others[_MOST_IN_BUCKET - 1 :], key)
        self._buckets[key] = (slot, *others[: _MOST_IN_BUCKET - 1])
        self._buckets.move_to_end(key)

    def _leave(self, slot: _Slot, key: bytes) -> None:
        others = tuple([each for each in self._buckets[key] if each is not slot])
        if others:
            self._buckets[key] = others
        else:
            del self._buckets[key]

    def _put_out(self, slots: tuple[_Slot, ...], key: bytes) -> None:
        """Let go of what these slots are in this bucket for."""
        for slot in slots:
            if slot.key == key:
                self._forget(slot)
            else:
                slot.earlier = None

    def _forget(self, slot: _Slot) -> None:
        self._let_go_of_earlier(slot)
        self._bytes -= slot.weight_bytes
        if slot.progress is not None:
            del self._open[slot]
            self._open_turns -= slot.turns
        # A request may be under way that goes on from here.
        slot.digest = b""

    def _let_go_of_earlier(self, slot: _Slot) -> None:
        earlier, slot.earlier = slot.earlier, None
        if earlier is not None and earlier.key != slot.key:
            self._leave(slot, earlier.key)

    def _shrink(self) -> None:
        going_on = self._open
        while self._open_turns > self._max_open_turns or len(going_on) > self._max_open:
            self._rest(next(iter(going_on)))
        while len(self._buckets) > self._max_entries or self._bytes > self._max_bytes:
            key, bucket = self._buckets.popitem(last=False)
            self._put_out(bucket, key)

    def _rest(self, slot: _Slot) -> None:
        least = _LEAST_BYTES + slot.turns * _LEAST_TURN_BYTES
        if not min(least, _MOST_ANEW_BYTES) <= slot.offset < _MOST_BYTES:
            self._forget(slot)
            self._leave(slot, slot.key)
            return
        self._let_go_of_earlier(slot)
        del self._open[slot]
        self._open_turns -= slot.turns
        resting = rest(cast("Progress", slot.progress), slot.standing)
        slot.progress, slot.standing, slot.resting = None, None, resting
        self._bytes += resting.weight_bytes


def _origin(resumed: Resumed, turns: int) -> _Slot | None:
    """Return the slot where this was found, if it is still there and may go on."""
    slot = resumed.origin
    if not isinstance(slot, _Slot):
        return None
    # Of a shorter history, a turn with a marker may be further ahead.
    is_there = slot.digest == resumed.progress.checkpoint.digest
    return slot if is_there and slot.turns <= turns else None


def _at(digest: bytes, bucket: tuple[_Slot, ...]) -> _Slot | None:
    """Return the slot of these that stands there."""
    for slot in bucket:
        if slot.digest == digest:
            return slot
    return None
