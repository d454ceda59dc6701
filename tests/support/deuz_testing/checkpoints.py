"""Checkpoints for tests, of bodies that are in no scope of anybody's."""

from deuz_compiler import Envelope, starts_of
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
