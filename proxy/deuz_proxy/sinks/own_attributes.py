"""What the spans of a request say of it alone, as bytes of its attributes.

Rules:
- What is not known is left off: an absent count is no 0.
- Strings from outside pass through `redact`.
- Every request needs these: each attribute has its writer, made once.
"""

from deuz_proxy.observe import names
from deuz_proxy.observe.events import RequestFinished, UpstreamCall
from deuz_proxy.observe.redact import shown_name
from deuz_proxy.sinks.otlp_bytes import (
    Pieces,
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


def add_own_request(said: Pieces, event: RequestFinished) -> None:
    """Add what the proxied request's own span says of this one alone."""
    _request_id(said, event.request_id)
    _conversation(said, event.conversation)
    _request_bytes(said, event.request_bytes)
    _response_bytes(said, event.response_bytes)
    _overhead(said, event.overhead_seconds)
    if event.sidecar_mutations:
        _mutations(said, event.sidecar_mutations)


def add_own_call(
    said: Pieces,
    event: RequestFinished,
    call: UpstreamCall,
    conventions: names.Conventions,
    *,
    is_answer: bool,
) -> None:
    """Add what one call to the upstream says of this one alone."""
    # An inference is what has a model and asks for an operation.
    if (
        event.conversation
        and (event.model is not None or call.model is not None)
        and names.operation_of(event.path) is not None
    ):
        _conversation_id(said, event.conversation)
    usage = event.usage if is_answer else call.usage
    if usage is not None:
        _input(said, usage.input_total)
        _read(said, usage.cache_read)
        _written[conventions.cache_write](said, usage.cache_write)
        _output(said, usage.output)
        _reasoning(said, usage.reasoning)
    if is_answer and event.model is not None:
        _add_answer(said, event, call)


def _add_answer(said: Pieces, event: RequestFinished, call: UpstreamCall) -> None:
    if event.response_id:
        _response_id(said, shown_name(event.response_id))
    if event.is_streamed and event.first_byte_seconds is not None:
        waited = event.at + event.first_byte_seconds - call.started_at
        _first_chunk(said, max(0.0, waited))
    if event.compactions:
        said.append(_COMPACTED)
