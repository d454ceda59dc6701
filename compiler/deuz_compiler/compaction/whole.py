"""One summary in place of the whole conversation, for models that bind thinking to it.

Rules:
- Such a model refuses replayed thinking once anything before it has changed: no turn of
  the assistant behind the first change may survive.
- Leading system turns stay where they are. The pending user turn stays, with the blocks
  placed behind it; later system turns stay, in order, behind it, since a provider lets
  only an assistant turn follow them.
- A history that ends in a tool result has no pending turn: it is summarised whole, and
  the newest question is repeated word for word.
- What cannot be read or is sealed stays with all in front of it, byte for byte; the run
  starts behind it.
- A history that ends with the assistant's own words is a prefill, which no summary may
  replace.
"""

import msgspec

from deuz_compiler.compaction.fold import Folded, FoldRun, fold_run, legal_cuts
from deuz_compiler.compaction.history import History


def choose_whole(
    history: History, *, known: Folded | None = None, must_alternate: bool = False
) -> FoldRun | None:
    """Return the run that one summary replaces, or None.

    A fold in force must be part of it. Where user turns may not be neighbours, a
    pending turn has no place behind a summary.
    """
    stop = _pending_start(history)
    if _is_prefill(history) or (must_alternate and stop < len(history)):
        return None
    first = _first(history, stop)
    if first is None or not _is_new(history, range(first, stop), known):
        return None
    if known is not None and not first <= known.first <= known.last < stop:
        return None
    systems = tuple(i for i in range(first, stop) if _is_system(history, i))
    users = _users(history, stop) if systems else ()
    run = fold_run(history, first, stop, known=known, kept=systems)
    last = run.last + len(users)
    return msgspec.structs.replace(run, last=last, kept=users + systems, is_whole=True)


def _pending_start(history: History) -> int:
    """Return where the turns begin that wait for an answer."""
    start = 0
    for index, view in enumerate(history):
        is_asked = view.turn.role in {"user", "system"} and not view.has_results
        start = start if is_asked else index + 1
    return start or _lead(history)


def _is_prefill(history: History) -> bool:
    return bool(history) and history[-1].turn.role == "assistant"


def _first(history: History, stop: int) -> int | None:
    """Return where the run begins: behind the last turn that must stay."""
    fixed = [
        index
        for index in range(stop)
        if (history[index].is_opaque or history[index].is_sealed)
        and not _is_system(history, index)
    ]
    at = max([_lead(history), *(index + 1 for index in fixed)])
    is_cut = legal_cuts(history)
    return next((i for i in range(at, stop) if is_cut[i]), None)


def _is_new(history: History, run: range, known: Folded | None) -> bool:
    """Tell whether the run says something that no summary says yet."""
    return any(
        history[index].summary is None and not _is_system(history, index)
        for index in run
        if known is None or not known.hides(index)
    )


def _users(history: History, stop: int) -> tuple[int, ...]:
    """Return the pending turns before the first system turn among them."""
    users = []
    for index in range(stop, len(history)):
        if _is_system(history, index):
            break
        users.append(index)
    return tuple(users)


def _lead(history: History) -> int:
    lead = 0
    while lead < len(history) and _is_system(history, lead):
        lead += 1
    return lead


def _is_system(history: History, index: int) -> bool:
    return history[index].turn.role == "system"
