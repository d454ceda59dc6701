"""Overflow that was only seen: in answers that the line did not hold back.

Rules:
- It is counted as observed; nothing is done about it.
- An error that says nothing, or an answer that looks well, is judged by sizes: the
  model's window and our estimate. A suspicion never changes a request.
"""

import msgspec

from deuz_compiler import (
    OverflowSignal,
    ReplyFacts,
    Usage,
    recognise_blank,
    recognise_finish,
    recognise_overflow,
    recognise_silent,
)
from deuz_proxy.calls import Call, Compiled, Headers, Sent, Totals, header
from deuz_proxy.config.windows import Window
from deuz_proxy.observe.events import Overflow
from deuz_proxy.runtime import Runtime

_FIRST_BAD = 400

DEFAULT_OUTPUT_TOKENS = 4096
"""Kept for the answer when neither the request nor the model table says how much."""


class Seen(msgspec.Struct, frozen=True):
    """A request that is through, and what is known of its answer."""

    call: Call
    compiled: Compiled
    sent: Sent | None
    totals: Totals
    facts: ReplyFacts


def observe_overflow(seen: Seen, runtime: Runtime) -> tuple[Overflow, ...]:
    """Return the overflow that the answer tells of or suggests, if any."""
    if seen.sent is None:
        return ()
    status = seen.totals.status
    if status >= _FIRST_BAD:
        return _told("rejected", _rejected(seen, runtime))
    if seen.facts.error_body:
        signal = recognise_overflow(status, seen.facts.error_body, is_stream_event=True)
        return _told("in_stream", signal)
    signal, usage = recognise_finish(seen.facts), seen.facts.usage
    if signal is None and usage is not None:
        signal = _silent(seen, usage, runtime)
    return () if signal is None else _told("silent", signal)


def window_of(call: Call, runtime: Runtime) -> Window | None:
    """Return the window of the request's model, long-context betas considered."""
    if call.envelope is None:
        return None
    asked = call.envelope.window_tokens
    if asked is not None:
        return Window(asked, None, None, "request")
    model, beta = call.envelope.model, ""
    if "claude" in model.lower():
        beta = (header(call.headers, b"anthropic-beta") or b"").decode("latin-1")
    return runtime.models.window(model, beta=beta)


def text_headers(headers: Headers) -> dict[str, str]:
    """Return header lines as text, names in lower case, the last of each name."""
    return {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in headers}


def free_tokens_of(call: Call, used_tokens: int, runtime: Runtime) -> int | None:
    """Return what a request of so many estimated tokens leaves free; None: unknown."""
    window = window_of(call, runtime)
    if window is None or call.envelope is None:
        return None
    output = call.envelope.max_output_tokens or DEFAULT_OUTPUT_TOKENS
    used_tokens = runtime.estimates.calibrated(call.envelope.model, used_tokens)
    return max(0, window.room(output) - used_tokens)


def _rejected(seen: Seen, runtime: Runtime) -> OverflowSignal | None:
    status, body = seen.totals.status, seen.totals.error_body
    if not body:
        window, estimated = _sizes(seen, runtime)
        return recognise_blank(status, window_tokens=window, estimated_tokens=estimated)
    lines = seen.sent.reply.headers if seen.sent else ()
    return recognise_overflow(status, body, headers=text_headers(lines))


def _silent(seen: Seen, usage: Usage, runtime: Runtime) -> OverflowSignal | None:
    facts, (window, estimated) = seen.facts, _sizes(seen, runtime)
    return recognise_silent(
        usage,
        facts.finish_reason,
        facts.has_content,
        window_tokens=window,
        estimated_tokens=estimated,
    )


def _sizes(seen: Seen, runtime: Runtime) -> tuple[int | None, int | None]:
    """Return the window's input tokens and the estimate of what was sent."""
    envelope, outbound = seen.call.envelope, seen.compiled.outbound
    if envelope is None or outbound is None:
        return None, None
    window = window_of(seen.call, runtime)
    estimated = runtime.estimates.calibrated(envelope.model, outbound.total_tokens)
    return window.room(0) if window else None, estimated


def _told(stage: str, signal: OverflowSignal | None) -> tuple[Overflow, ...]:
    if signal is None:
        return ()
    return (Overflow(stage, "observed", signal.limit_tokens, signal.requested_tokens),)
