"""Make turns smaller without a model: old tool results cut down, no old reasoning.

Rules:
- Only the content of a result changes; ids, error flags and every other byte stay, so
  each call keeps its result.
- A result becomes a stub, or loses its middle. It must become shorter, and neither is
  done again to what it left: a second pass changes nothing.
- The reasoning of a turn goes all together or not at all.
- Counts of characters are of what the model saw: the text, or the JSON where there is
  more than text.
"""

import re
from collections.abc import Sequence

import msgspec

from deuz_compiler.compaction.history import History, TurnView
from deuz_compiler.compaction.shorten import HeadTail, shorten_content
from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.wires.parts import REASONING, TOOL_RESULT, Part

_STUB = re.compile(rb'"\[pruned \d+ chars\]"')


class Pruned(msgspec.Struct, frozen=True, gc=False):
    """Parts of one turn to be replaced: pairs of part index and JSON text, in order.

    `saved_tokens` is an estimate, never negative.
    """

    turn: int
    stubs: tuple[tuple[int, bytes], ...]
    saved_tokens: int


def prune_results(
    history: History, protected: Sequence[bool], *, limits: HeadTail | None = None
) -> tuple[Pruned, ...]:
    """Return what replaces the tool results of the turns that are not protected.

    With `limits` long results lose their middle, without every result becomes a stub.
    """
    pairs = zip(history, protected, strict=True)
    found = (
        _pruned(index, view, _result_stubs(view, limits))
        for index, (view, is_kept) in enumerate(pairs)
        if not is_kept and view.turn.role != "assistant"
    )
    return tuple(pruned for pruned in found if pruned.stubs)


def prune_reasoning(history: History, protected: Sequence[bool]) -> tuple[Pruned, ...]:
    """Return what cuts the reasoning out of assistant turns that are not protected."""
    pairs = zip(history, protected, strict=True)
    found = (
        _pruned(index, view, _reasoning_stubs(view))
        for index, (view, is_kept) in enumerate(pairs)
        if not is_kept and view.turn.role == "assistant"
    )
    return tuple(pruned for pruned in found if pruned.stubs)


def _result_stubs(view: TurnView, limits: HeadTail | None) -> list[tuple[int, bytes]]:
    stubs = []
    for index, part in enumerate(view.parts):
        if part.kind != TOOL_RESULT:
            continue
        value = view.raw[part.start : part.end]
        stub = shorten_content(value, limits) if limits else _stub(part, value)
        if stub is not None and len(stub) < len(value):
            stubs.append((index, stub))
    return stubs


def _stub(part: Part, value: bytes) -> bytes | None:
    if _STUB.fullmatch(value):
        return None
    return b'"[pruned %d chars]"' % _seen_characters(part, value)


def _seen_characters(part: Part, value: bytes) -> int:
    return len(part.text) if value.startswith(b'"') else len(value.decode())


def _reasoning_stubs(view: TurnView) -> list[tuple[int, bytes]]:
    found = [(i, part) for i, part in enumerate(view.parts) if part.kind == REASONING]
    if any(part.start == part.end for _, part in found):
        return []
    return [(index, b"") for index, _ in found]


def _pruned(index: int, view: TurnView, stubs: list[tuple[int, bytes]]) -> Pruned:
    stubs.sort(key=lambda stub: view.parts[stub[0]].start)
    saved = 0
    for at, text in stubs:
        part = view.parts[at]
        saved += estimate_bytes(view.raw[part.start : part.end]) - estimate_bytes(text)
    return Pruned(index, tuple(stubs), min(max(0, saved), view.turn.tokens))
