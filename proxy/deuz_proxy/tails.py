"""Working memory as the end of a request: where it may stand, and how much of it.

Rules:
- It is written anew for each request and kept by nobody: no ledger, no baseline.
- But a model that binds its thinking to the prefix would lose its thoughts with an end
  that is gone in the next request. There each copy stays where it was sent, and the
  current one stands behind the newest turn; a turn answered without gets none later.
- The same holds where the provider is asked to cache each request to its very end
  (Anthropic's automatic caching): what ended with a passing end is never read again.
- What is critical in it is written in full, past its budget if need be, never past what
  the request leaves free; where it does not fit there is none.
- Many copies of the same are not worth their room: past a number of them, only notes
  that have changed are written again.
"""

from collections.abc import Sequence

from deuz_compiler import (
    Append,
    Bare,
    Ending,
    Operation,
    Surface,
    TailCopy,
    escape_json_string,
    estimator_for,
    place_for_tail,
    plain_prefix,
    render_tail,
    with_surface,
)
from deuz_proxy.calls import Call, Known, Tail
from deuz_proxy.offers import form_of, model_of
from deuz_proxy.overflows import free_tokens_of
from deuz_proxy.runtime import Runtime

# A step's notes are some hundred tokens: these are about what a window can spare.
_MOST_REPEATS = 16


def make_tail(
    call: Call, known: Known, surface: Surface, runtime: Runtime
) -> Tail | None:
    """Return the request's end; None where there is nothing, no place or no room."""
    envelope, notes = call.envelope, known.notes
    if envelope is None or notes is None or call.is_probe or call.is_condensing:
        return None
    form = form_of(call, known)
    place = place_for_tail(envelope, form)
    is_bound = runtime.models.binds_thinking(envelope.model)
    is_kept = is_bound or envelope.is_cached_to_end
    if place is None or (is_kept and _is_answered(known.operations.get(place, ()))):
        return None
    plain = plain_prefix(envelope, call.shared)
    used_tokens = with_surface(plain, envelope, surface).total_tokens
    written = render_tail(
        notes,
        budget_tokens=runtime.config.context.budget.working_memory_tokens,
        ceiling_tokens=free_tokens_of(call, used_tokens, runtime),
        estimate=estimator_for(model_of(call)).count_text,
    )
    if not written.text:
        return None
    shown = [entry.record_id for entry in written.entries if entry.is_selected]
    text = escape_json_string(written.text)
    if is_kept and _is_enough(surface, text):
        return None
    append = Append(text=text, records=(), tokens=written.tokens, form=form)
    names = tuple(f"working-memory/{name}" for name in shown)
    return Tail(Ending(place, append), names, is_kept)


def copy_of(tail: Tail) -> TailCopy:
    """Return the tail as what stays behind the turn."""
    append = tail.ending.append
    return TailCopy(append.text, tail.records, append.tokens, append.form)


def _is_answered(operations: Sequence[Operation]) -> bool:
    """Tell whether the turn was answered before: what it ended with is settled."""
    return any(isinstance(each, Append | Bare | TailCopy) for each in operations)


def _is_enough(surface: Surface, text: bytes) -> bool:
    copies = surface.copies
    return len(copies) >= _MOST_REPEATS and copies[-1].copy.text == text
