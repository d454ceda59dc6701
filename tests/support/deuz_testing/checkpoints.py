"""Checkpoints and progress for tests, of bodies that are in no scope of anybody's."""

from deuz_compiler import (
    Envelope,
    Progress,
    chain,
    lift,
    plain_prefix,
    progress_of,
    starts_of,
)
from deuz_compiler.wires import checkpoint
from deuz_compiler.wires.scanning import Checkpoint

ROOT = bytes(range(16))


def checkpoint_of(envelope: Envelope, *, seed: int = 0) -> Checkpoint:
    """Return the checkpoint of the envelope's body."""
    starts = starts_of(ROOT, envelope.body)
    return checkpoint.checkpoint_of(envelope, starts, seed=seed)


def goes_on(body: bytes, known: Checkpoint) -> bool:
    """Tell whether the body goes on from the checkpoint."""
    return starts_of(ROOT, body).goes_on(known.offset, known.digest)


def progress_in(wire: str, body: bytes) -> Progress:
    """Return what is known of the body, seen for the first time."""
    envelope = lift(wire, body, seed=7)
    keys, prefix = chain(envelope, root=ROOT), plain_prefix(envelope)
    starts = starts_of(ROOT, body)
    return progress_of(envelope, keys, prefix, starts=starts, seed=7)
