"""The request side of the wires, by the wire's name.

Rules:
- A wire without an entry is forwarded and metered, but its body is not understood.
"""

from deuz_compiler.errors import NotLifted
from deuz_compiler.wires.envelope import NO_FACTS, Envelope, PathFacts
from deuz_compiler.wires.lifting import lift_body
from deuz_compiler.wires.parts import Part, Place, words_of
from deuz_compiler.wires.scanning import Checkpoint
from deuz_compiler.wires.table import WIRES

_MARKED_TURNS = 4


def lift(
    wire: str,
    body: bytes,
    *,
    seed: int = 0,
    known: Checkpoint | None = None,
    path: PathFacts = NO_FACTS,
) -> Envelope:
    """Return the places of the body's parts; `known` must be a prefix of the body.

    Raises:
        NotLifted: the wire or the body is not understood.
    """
    if wire not in WIRES:
        raise NotLifted("unknown_shape")
    rules = WIRES[wire].rules
    return lift_body(rules, body, seed=seed, known=known, path=path)


def read_parts(wire: str, raw: bytes) -> tuple[Part, ...]:
    """Return the parts of one turn of the wire.

    Raises:
        NotLifted: not a turn of this wire.
    """
    return WIRES[wire].parts.read_parts(raw)


def part_span(wire: str, raw: bytes, index: int) -> Place:
    """Return where one part of the turn stands.

    Raises:
        NotLifted: the turn has no such part.
    """
    return WIRES[wire].parts.part_span(raw, index)


def user_text(wire: str, raw: bytes) -> str:
    """Return what the user wrote in the turn, without what the sidecar added."""
    return WIRES[wire].parts.user_text(raw)


def said_text(wire: str, raw: bytes) -> str:
    """Return what was said in the turn, by whoever: no calls, results or blocks.

    Raises:
        NotLifted: not a turn of this wire.
    """
    return words_of(read_parts(wire, raw))


def may_read_cache(envelope: Envelope) -> bool:
    """Tell whether the request lets the provider read what it has in its cache."""
    rules = WIRES[envelope.wire].rules
    marker = rules.cache_marker
    if marker is None:
        return True
    if rules.marked_only is not None and not _has_word(envelope, rules.marked_only):
        return True
    # Markers stand at the newest turns or ahead of all: elsewhere is a long way.
    body, newest = envelope.body, envelope.turns[-_MARKED_TURNS:]
    tail = newest[0].start if newest else envelope.history.end
    return body.find(marker, tail) >= 0 or body.find(marker, 0, tail) >= 0


def _has_word(envelope: Envelope, wanted: tuple[str, bytes]) -> bool:
    name, word = wanted
    spans = [span for key, span in envelope.params if key == name]
    return any(word in envelope.body[span.start : span.end] for span in spans)


def ask_once(asker: Envelope, *, model: str, text: str, output_tokens: int) -> bytes:
    """Return a whole request that asks the model one thing, without tools or stream.

    `asker` is the client's request: what must not differ is taken from it.
    """
    return WIRES[asker.wire].writing.ask(asker, model, text, output_tokens)
