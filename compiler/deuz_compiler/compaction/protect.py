"""Which turns no layer may touch.

Rules:
- System turns, the first and the last user words and the last turn are kept; so are the
  last `keep_recent_steps` assistant turns, at least one, and all that follows them.
- Where a wire writes reasoning, words and calls of one answer as turns of their own,
  they are one step.
- The newest question is kept where it is if it has pictures or documents. Plain text
  may be folded, since a fold repeats it word for word.
- What cannot be read and what the provider sealed is kept.
- What the sidecar wrote is never taken for the user's words.
"""

from deuz_compiler.compaction.history import History, TurnView
from deuz_compiler.wires.parts import DOCUMENT, IMAGE


def protected_turns(history: History, keep_recent_steps: int) -> tuple[bool, ...]:
    """Return for each turn whether it must stay as it is."""
    recent = _recent_start(history, max(1, keep_recent_steps))
    kept = {first_user(history), _pictured_question(history), len(history) - 1}
    return tuple(
        index >= recent
        or index in kept
        or view.turn.role == "system"
        or view.is_opaque
        or view.is_sealed
        for index, view in enumerate(history)
    )


def first_user(history: History) -> int:
    """Return the index of the first turn with the user's words, -1 if there is none."""
    return next((i for i, view in enumerate(history) if _is_user(view)), -1)


def newest_question(history: History) -> int:
    """Return the index of the newest turn in which the user asked, -1 if none."""
    asked = (i for i, view in enumerate(history) if _is_user(view) and _is_fresh(view))
    return max(asked, default=-1)


def _recent_start(history: History, steps: int) -> int:
    assistants = [i for i, view in enumerate(history) if view.turn.role == "assistant"]
    starts = [i for i in assistants if not _goes_on(history, i)]
    return starts[-steps:][0] if starts else len(history)


def _goes_on(history: History, index: int) -> bool:
    """Tell whether the turn is of the same answer as the turn before it."""
    view, before = history[index], history[index - 1] if index else None
    if before is None or before.turn.role != "assistant":
        return False
    return before.is_only_reasoning or before.has_calls or view.has_calls


def _pictured_question(history: History) -> int:
    newest = newest_question(history)
    if newest < 0:
        return -1
    kinds = [part.kind for part in history[newest].parts]
    return newest if IMAGE in kinds or DOCUMENT in kinds else -1


def _is_user(view: TurnView) -> bool:
    return view.turn.role == "user" and view.summary is None


def _is_fresh(view: TurnView) -> bool:
    return view.turn.is_fresh and not view.has_results
