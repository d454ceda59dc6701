"""Working memory as the end of a request: where it may stand, and how much of it.

Rules:
- It is written anew for each request and kept by nobody: no ledger, no baseline.
- What is critical in it is written in full, past its budget if need be, never past what
  the request leaves free; where it does not fit there is none.
- A model that binds its thinking to the prefix gets none: an end that is gone in the
  next request would void its thoughts. Copies that stay in place are what it takes.
"""

from deuz_compiler import (
    Append,
    Ending,
    Surface,
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


def make_tail(
    call: Call, known: Known, surface: Surface, runtime: Runtime
) -> Tail | None:
    """Return the request's end; None where there is nothing, no place or no room."""
    envelope, notes = call.envelope, known.notes
    if envelope is None or notes is None or call.is_probe:
        return None
    form = form_of(call, known)
    place = place_for_tail(envelope, form)
    if place is None or runtime.models.binds_thinking(envelope.model):
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
    append = Append(text=text, records=(), tokens=written.tokens, form=form)
    names = tuple(f"working-memory/{name}" for name in shown)
    return Tail(Ending(place, append), names)
