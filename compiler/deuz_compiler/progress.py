"""How far a conversation is understood, so that its next request goes on from there.

Rules:
- The cost of a request grows with its new bytes: what it shares with an earlier request
  of its conversation is hashed once, and neither read nor counted again.
- What is gone on with is what reading everything anew would give: it saves time only.
"""

import msgspec
from msgspec.structs import replace

from deuz_compiler.prefix import Prefix, Shared
from deuz_compiler.standing import Standing
from deuz_compiler.wires.checkpoint import checkpoint_of
from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.lifetimes import cache_seconds, seconds_ahead
from deuz_compiler.wires.scanning import Checkpoint
from deuz_compiler.wires.starts import Starts


class Progress(msgspec.Struct, frozen=True, gc=False):
    """What is known of a body up to its checkpoint: lineage keys and plain prefix.

    `keys` has one key for each of the checkpoint's turns. `ahead_seconds` is how long
    the provider is asked to keep its cache, ahead of the history.
    """

    checkpoint: Checkpoint
    keys: tuple[bytes, ...]
    shared: Shared
    ahead_seconds: float


class Resumed(msgspec.Struct, frozen=True, gc=False):
    """A body that goes on where an earlier one was understood up to.

    `standing` is what stands on the turns up to there, where that is known; `origin` is
    what it was found in, and nobody's business but the finder's.
    """

    progress: Progress
    standing: Standing | None = None
    origin: object = None


def progress_of(
    envelope: Envelope,
    keys: tuple[bytes, ...],
    prefix: Prefix,
    *,
    starts: Starts,
    seed: int,
    resumed: Resumed | None = None,
) -> Progress:
    """Return how far this request is understood.

    `keys` are its lineage keys, `prefix` is its plain prefix, `starts` are its body's.
    """
    unmarked = None
    if resumed is None:
        ahead_seconds = seconds_ahead(envelope)
    else:
        known = resumed.progress
        ahead_seconds, old = known.ahead_seconds, known.shared
        # Of a shorter history, others are the last ones, which are looked at.
        if old.lead == envelope.lead and len(old.prefix.digests) <= len(prefix.digests):
            unmarked = known.checkpoint
    checkpoint = checkpoint_of(envelope, starts, seed=seed, unmarked=unmarked)
    count = len(checkpoint.turns.kinds)
    shared = Shared(prefix, count, checkpoint.offset, envelope.lead, checkpoint.facts)
    return Progress(checkpoint, keys[:count], shared, ahead_seconds)


def progress_up_to(
    progress: Progress, turns: int, *, offset: int, digest: bytes
) -> Progress:
    """Return what is known of its first turns alone: the start of this digest.

    The prefix may be of more turns than are shared, and what else is told of the body
    is told ahead of all of them.
    """
    checkpoint, shared = progress.checkpoint, progress.shared
    return Progress(
        replace(
            checkpoint, offset=offset, digest=digest, turns=checkpoint.turns[:turns]
        ),
        progress.keys[:turns],
        replace(shared, turns=turns, offset=offset),
        progress.ahead_seconds,
    )


def kept_seconds(envelope: Envelope, progress: Progress) -> float:
    """Return the seconds that the provider keeps what it caches of this request."""
    return cache_seconds(
        envelope,
        unmarked=len(progress.checkpoint.turns.kinds),
        ahead_seconds=progress.ahead_seconds,
    )
