"""Progress as it is kept while its conversation rests: small, whole again in a step.

Rules:
- What is made of it again is what it was: nothing of a body is guessed.
- What stands elsewhere too is shared, not copied: the prefix is the baseline's, from
  which what is ours is taken out, and what is told ahead of the history is one value
  for all who begin alike.
- What the prefix has is not kept twice: of each turn that are half its digest and its
  tokens. Lineage keys are told from the turns.
"""

from array import array
from functools import lru_cache

import msgspec

from deuz_compiler.lineage import keys_of
from deuz_compiler.prefix import DIGEST_BYTES, Prefix, Shared, without
from deuz_compiler.progress import Progress
from deuz_compiler.standing import Standing
from deuz_compiler.wires.envelope import Facts, Member
from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.scanning import Checkpoint
from deuz_compiler.wires.turns import DIGEST_BYTES as TURN_DIGEST_BYTES
from deuz_compiler.wires.turns import TOKEN_BYTES, Turns

_PLACE_BYTES = 8
# So that every second is a half, whichever end is first: none is read as a number.
_EIGHT, _FOUR = "Q", "I"


class _Ahead(msgspec.Struct, frozen=True, gc=False):
    """What many conversations have in common: what stands ahead of their histories."""

    history_start: int
    before: tuple[Member, ...]
    facts: Facts | None
    lead: int
    ahead_seconds: float
    seed: int
    peeks: tuple[Peek, ...]


class Resting(msgspec.Struct, frozen=True, gc=False):
    """Progress with `count` turns, without what its prefix tells of them.

    The prefix has what is ours at these `places` of its history, packed. `columns` are
    digests and tokens of the leading turns, which no prefix has by themselves, the
    second halves of the others' digests, the first ones of all places, and the kinds.
    """

    ahead: _Ahead
    prefix: Prefix
    count: int
    columns: bytes
    places: bytes = b""

    @property
    def weight_bytes(self) -> int:
        """How long all is that belongs to this conversation alone."""
        prefix = self.prefix
        own = len(self.columns) + len(self.places)
        return own + len(prefix.digests) + len(prefix.tokens)


def rest(progress: Progress, standing: Standing | None = None) -> Resting:
    """Return what is to be kept for long, of a body of less than 4 GiB.

    `standing` is what stands on the request that the progress is of.
    """
    checkpoint, shared = progress.checkpoint, progress.shared
    turns = checkpoint.turns
    lead = min(shared.lead, len(turns.kinds))
    columns = (
        turns.digests[: lead * TURN_DIGEST_BYTES],
        turns.tokens[: lead * TOKEN_BYTES],
        array(_EIGHT, turns.digests[lead * TURN_DIGEST_BYTES :])[1::2].tobytes(),
        array(_FOUR, turns.places)[::2].tobytes(),
        turns.kinds,
    )
    ahead = _Ahead(
        checkpoint.history_start,
        checkpoint.before,
        checkpoint.facts,
        shared.lead,
        progress.ahead_seconds,
        checkpoint.seed,
        turns.peeks,
    )
    prefix, places = shared.prefix, b""
    if standing is not None and standing.inbound is prefix:
        places = standing.marks.ours.within
        prefix = standing.outbound if places else prefix
    return Resting(_one(ahead), prefix, len(turns.kinds), b"".join(columns), places)


def wake(resting: Resting, *, offset: int, digest: bytes, root: bytes) -> Progress:
    """Return the progress again, up to its checkpoint at the start of this digest.

    `root` is the one that the lineage keys have.
    """
    ahead, prefix, count = resting.ahead, resting.prefix, resting.count
    if resting.places:
        prefix = without(prefix, resting.places)
    turns = _turns(resting, prefix, min(ahead.lead, count))
    checkpoint = Checkpoint(
        offset,
        digest,
        ahead.history_start,
        ahead.before,
        turns,
        ahead.seed,
        ahead.facts,
    )
    keys = keys_of(turns, ahead.lead, root=root)
    shared = Shared(prefix, count, offset, ahead.lead, ahead.facts)
    return Progress(checkpoint, keys, shared, ahead.ahead_seconds)


def _turns(resting: Resting, prefix: Prefix, lead: int) -> Turns:
    count, columns = resting.count, resting.columns
    own = count - lead
    tokens_at = lead * TURN_DIGEST_BYTES
    digests_at = tokens_at + lead * TOKEN_BYTES
    places_at = digests_at + own * DIGEST_BYTES
    kinds_at = places_at + count * _PLACE_BYTES
    digests = array(_EIGHT, bytes(2 * own * DIGEST_BYTES))
    digests[::2] = array(_EIGHT, prefix.digests[: own * DIGEST_BYTES])
    digests[1::2] = array(_EIGHT, columns[digests_at:places_at])
    places = array(_FOUR, bytes(2 * count * _PLACE_BYTES))
    places[::2] = array(_FOUR, columns[places_at:kinds_at])
    return Turns(
        resting.ahead.peeks,
        columns[kinds_at:],
        places.tobytes(),
        columns[tokens_at:digests_at] + prefix.tokens[: own * TOKEN_BYTES],
        columns[:tokens_at] + digests.tobytes(),
    )


# All who use one program with one model begin alike, mostly.
@lru_cache(maxsize=1_024)
def _one(ahead: _Ahead) -> _Ahead:
    """Return this, the same value for all who begin alike."""
    return ahead
