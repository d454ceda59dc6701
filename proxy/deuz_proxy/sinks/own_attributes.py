"""What the spans of a request say of it alone: keys of attributes, and their values.

Rules:
- What is not known is None and left off: an absent count is no 0.
- Strings from outside pass through `redact`.
- Values stand in the order of their keys, which are written once.
"""

from deuz_proxy.observe import names
from deuz_proxy.observe.events import RequestFinished, UpstreamCall
from deuz_proxy.observe.redact import shown_name
from deuz_proxy.sinks.span_items import Values, keys_of

REQUEST_KEYS = keys_of(
    names.REQUEST_ID,
    names.CONVERSATION,
    names.HTTP_REQUEST_BYTES,
    names.HTTP_RESPONSE_BYTES,
    names.OVERHEAD,
    names.MUTATIONS,
)
CALL_KEYS = {
    cache_write: keys_of(
        names.CONVERSATION_ID,
        names.INPUT_TOKENS,
        names.CACHE_READ,
        cache_write,
        names.OUTPUT_TOKENS,
        names.REASONING,
        names.RESPONSE_ID,
        names.FIRST_CHUNK,
        names.COMPACTED,
    )
    for cache_write in (names.NEWEST.cache_write, names.OLDER.cache_write)
}
"""By the name that a generation of the conventions has for what was written."""

_NO_COUNTS = None, None, None, None, None
_NO_ANSWER = None, None, None


def own_request(event: RequestFinished) -> Values:
    """Return what the proxied request's own span says of this one alone."""
    is_summed = event.stages[-1:] == ("total",)
    return (
        event.request_id,
        event.conversation,
        event.request_bytes,
        event.response_bytes,
        # Its last stage is their total: `overhead_seconds` without a call.
        event.stage_seconds[-1] if is_summed else event.overhead_seconds,
        event.sidecar_mutations or None,
    )


def own_call(event: RequestFinished, call: UpstreamCall, *, is_answer: bool) -> Values:
    """Return what one call to the upstream says of this one alone."""
    # An inference is what has a model and asks for an operation.
    is_inference = (
        event.model is not None or call.model is not None
    ) and names.operation_of(event.path) is not None
    usage = event.usage if is_answer else call.usage
    counts: Values = _NO_COUNTS
    if usage is not None:
        counts = (
            usage.input_total,
            usage.cache_read,
            usage.cache_write,
            usage.output,
            usage.reasoning,
        )
    has_answer = is_answer and event.model is not None
    answer = _answer(event, call) if has_answer else _NO_ANSWER
    conversation = (event.conversation or None) if is_inference else None
    return (conversation, *counts, *answer)


def _answer(event: RequestFinished, call: UpstreamCall) -> Values:
    waited = None
    if event.is_streamed and event.first_byte_seconds is not None:
        waited = max(0.0, event.at + event.first_byte_seconds - call.started_at)
    return (
        shown_name(event.response_id) if event.response_id else None,
        waited,
        # Only when known: the conventions forbid to say "not compacted".
        True if event.compactions else None,
    )
