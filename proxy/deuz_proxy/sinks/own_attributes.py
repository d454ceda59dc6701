"""What the spans of a request say of it alone, as bytes of its attributes.

Rules:
- What is not known is left off: an absent count is no 0.
- Strings from outside pass through `redact`.
- Every request needs these: each attribute has its writer, made once.
"""

from deuz_compiler import Usage
from deuz_proxy.observe import names
from deuz_proxy.observe.events import RequestFinished, UpstreamCall
from deuz_proxy.observe.redact import shown_name
from deuz_proxy.sinks.otlp_bytes import (
    number_writer,
    seconds_writer,
    text_writer,
    write_attributes,
)

SPAN_ATTRIBUTES = 9
"""The field of a span that attributes are members of."""

_request_id = text_writer(SPAN_ATTRIBUTES, names.REQUEST_ID)
_conversation = text_writer(SPAN_ATTRIBUTES, names.CONVERSATION)
_request_bytes = number_writer(SPAN_ATTRIBUTES, names.HTTP_REQUEST_BYTES)
_response_bytes = number_writer(SPAN_ATTRIBUTES, names.HTTP_RESPONSE_BYTES)
_overhead = seconds_writer(SPAN_ATTRIBUTES, names.OVERHEAD)
_mutations = number_writer(SPAN_ATTRIBUTES, names.MUTATIONS)

_conversation_id = text_writer(SPAN_ATTRIBUTES, names.CONVERSATION_ID)
_input = number_writer(SPAN_ATTRIBUTES, names.INPUT_TOKENS)
_read = number_writer(SPAN_ATTRIBUTES, names.CACHE_READ)
_output = number_writer(SPAN_ATTRIBUTES, names.OUTPUT_TOKENS)
_reasoning = number_writer(SPAN_ATTRIBUTES, names.REASONING)
_written = {
    name: number_writer(SPAN_ATTRIBUTES, name)
    for name in (names.NEWEST.cache_write, names.OLDER.cache_write)
}
_response_id = text_writer(SPAN_ATTRIBUTES, names.RESPONSE_ID)
_first_chunk = seconds_writer(SPAN_ATTRIBUTES, names.FIRST_CHUNK)
# Only when known: the conventions forbid to say "not compacted".
_COMPACTED = write_attributes(SPAN_ATTRIBUTES, {names.COMPACTED: True})


def write_own_request(event: RequestFinished) -> bytes:
    """Return what the proxied request's own span says of this one alone."""
    return b"".join(
        (
            _request_id(event.request_id),
            _conversation(event.conversation),
            _request_bytes(event.request_bytes),
            _response_bytes(event.response_bytes),
            _overhead(event.overhead_seconds),
            _mutations(event.sidecar_mutations) if event.sidecar_mutations else b"",
        )
    )


def write_own_call(
    event: RequestFinished,
    call: UpstreamCall,
    conventions: names.Conventions,
    *,
    is_answer: bool,
) -> bytes:
    """Return what one call to the upstream says of this one alone."""
    said = b""
    # An inference is what has a model and asks for an operation.
    if (
        event.conversation
        and (event.model is not None or call.model is not None)
        and names.operation_of(event.path) is not None
    ):
        said = _conversation_id(event.conversation)
    usage = event.usage if is_answer else call.usage
    if usage is not None:
        said += _usage(usage, conventions)
    if is_answer and event.model is not None:
        said += _answer(event, call)
    return said


def _usage(usage: Usage, conventions: names.Conventions) -> bytes:
    return b"".join(
        (
            _input(usage.input_total),
            _read(usage.cache_read),
            _written[conventions.cache_write](usage.cache_write),
            _output(usage.output),
            _reasoning(usage.reasoning),
        )
    )


def _answer(event: RequestFinished, call: UpstreamCall) -> bytes:
    said = b""
    if event.response_id:
        said = _response_id(shown_name(event.response_id))
    if event.is_streamed and event.first_byte_seconds is not None:
        waited = event.at + event.first_byte_seconds - call.started_at
        said += _first_chunk(max(0.0, waited))
    return said + _COMPACTED if event.compactions else said
