"""What the spans of a request say: events in, attributes of the catalogue out.

Rules:
- What is not known is left off: an absent count is no 0, an absent error no "none".
- Strings from outside pass through `redact`; a path shows API words only.
- An outcome that is not `ok` always has an `error.type`.
"""

from collections.abc import Iterable, Mapping

from opentelemetry.util.types import AttributeValue

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe import names
from deuz_proxy.observe.events import (
    Compaction,
    Compile,
    Overflow,
    RequestFinished,
    UpstreamCall,
)
from deuz_proxy.observe.redact import shown_name, shown_path, shown_source, shown_word
from deuz_proxy.observe.vocabulary import HTTP_METHODS, NONE

Attributes = dict[str, AttributeValue]

FIRST_ERROR_STATUS = 400


def known_method(method: str) -> str:
    """Return the method, or the conventions' word for one that HTTP does not have."""
    return method if method in HTTP_METHODS else "_OTHER"


def server_attributes(event: RequestFinished) -> Attributes:
    """Return the attributes of the proxied request's own span."""
    path = shown_path(event.path, event.upstream)
    return _known(
        {
            names.HTTP_METHOD: known_method(event.method),
            names.HTTP_ROUTE: path,
            names.URL_PATH: path,
            names.URL_SCHEME: "http",
            names.HTTP_STATUS: event.status,
            names.HTTP_REQUEST_BYTES: event.request_bytes,
            names.HTTP_RESPONSE_BYTES: event.response_bytes,
            names.ERROR_TYPE: request_error(event),
            names.REQUEST_ID: event.request_id,
            names.ROUTE: event.route,
            names.UPSTREAM: event.upstream,
            names.WIRE: event.wire,
            names.MODE: event.mode,
            names.GROUP: event.group,
            names.OUTCOME: event.outcome,
            names.PASSTHROUGH: event.passthrough,
            names.CONVERSATION: event.conversation,
            names.USAGE_STATUS: event.usage_status,
            names.OVERHEAD: event.overhead_seconds,
            names.MUTATIONS: event.sidecar_mutations or None,
        }
    )


def request_error(event: RequestFinished) -> str | None:
    """Return why the request did not end well, None if it did."""
    if event.outcome == "ok" and event.status < FIRST_ERROR_STATUS:
        return None
    if event.error is not None:
        return shown_word(event.error)
    return event.outcome if event.outcome != "ok" else str(event.status)


def call_attributes(
    event: RequestFinished,
    call: UpstreamCall,
    conventions: names.Conventions,
    *,
    is_answer: bool,
) -> Attributes:
    """Return the attributes of one call to the upstream.

    Only the call whose answer the client got (`is_answer`) has the answer's facts.
    """
    attributes: Mapping[str, AttributeValue | None] = {
        names.HTTP_METHOD: known_method(event.method),
        names.HTTP_STATUS: call.status,
        names.SERVER_ADDRESS: event.server_address or None,
        names.SERVER_PORT: event.server_port if event.server_address else None,
        names.PURPOSE: call.purpose,
        names.ERROR_TYPE: call_error(event, call, is_answer=is_answer),
        **_inference_attributes(event, call),
        **_usage_attributes(event.usage if is_answer else call.usage, conventions),
    }
    answer = _answer_attributes(event, call) if is_answer else {}
    return _known({**attributes, **answer})


def call_error(
    event: RequestFinished, call: UpstreamCall, *, is_answer: bool
) -> str | None:
    """Return why a call failed, None if it did not."""
    if call.error is not None:
        return shown_word(call.error)
    if call.status is not None and call.status >= FIRST_ERROR_STATUS:
        return str(call.status)
    return event.outcome if is_answer and event.outcome == "truncated" else None


def call_name(event: RequestFinished, call: UpstreamCall) -> str:
    """Return the span name of a call: operation and model, else the method."""
    operation, model = names.operation_of(event.path), call.model or event.model
    if operation is None or model is None:
        return known_method(event.method)
    return f"{operation} {shown_name(model)}"


def compile_attributes(compiled: Compile) -> Attributes:
    """Return the attributes of a compile of added context."""
    attributes: Attributes = {
        names.SELECTED: compiled.selected,
        names.EXCLUDED: compiled.excluded,
        names.TOKENS: compiled.tokens,
        names.BUDGET: compiled.budget_tokens,
        names.ESTIMATOR: compiled.estimator,
        names.REFRESH_REASON: compiled.refresh_reason,
        names.FALLBACK: compiled.fallback or NONE,
        names.PREFIX_CHANGED: compiled.is_prefix_changed,
        names.MANIFEST: compiled.manifest_digest,
    }
    for source in compiled.sources:
        stem = names.SOURCE_PREFIX + shown_source(source.source)
        attributes[f"{stem}.selected"] = source.selected
        attributes[f"{stem}.excluded"] = source.excluded
        attributes[f"{stem}.tokens"] = source.tokens
    return attributes


def verdict_attributes(verdict: Verdict) -> Attributes:
    """Return what a prefix verdict says, without what does not apply."""
    return _read(verdict, names.VERDICT_ATTRIBUTES)


def overflow_attributes(overflow: Overflow) -> Attributes:
    """Return what an overflow says, with the numbers that were told."""
    return _read(overflow, names.OVERFLOW_ATTRIBUTES)


def compaction_attributes(compaction: Compaction) -> Attributes:
    """Return what a layer of compaction did."""
    return _read(compaction, names.COMPACTION_ATTRIBUTES)


def _inference_attributes(
    event: RequestFinished, call: UpstreamCall
) -> Mapping[str, AttributeValue | None]:
    operation, model = names.operation_of(event.path), call.model or event.model
    if operation is None or model is None:
        return {}
    return {
        names.OPERATION: operation,
        names.PROVIDER: names.provider_of(event.wire) or shown_word(event.upstream),
        names.REQUEST_MODEL: shown_name(model),
        names.CONVERSATION_ID: event.conversation,
    }


def _answer_attributes(
    event: RequestFinished, call: UpstreamCall
) -> Mapping[str, AttributeValue | None]:
    if event.model is None:
        return {}
    reason = "error" if event.outcome == "truncated" else event.finish_reason
    return {
        names.REQUEST_STREAM: event.is_streamed or None,
        names.REQUEST_MAX_TOKENS: event.max_output_tokens,
        names.RESPONSE_ID: _name(event.response_id),
        names.RESPONSE_MODEL: _name(event.response_model),
        names.FINISH_REASONS: (shown_word(reason) or "",) if reason else None,
        names.FIRST_CHUNK: _first_chunk_seconds(event, call),
        # Only when known: the conventions forbid to say "not compacted".
        names.COMPACTED: True if event.compactions else None,
    }


def _usage_attributes(
    usage: Usage | None, conventions: names.Conventions
) -> Mapping[str, AttributeValue | None]:
    if usage is None:
        return {}
    return {
        names.INPUT_TOKENS: usage.input_total,
        names.CACHE_READ: usage.cache_read,
        conventions.cache_write: usage.cache_write,
        names.OUTPUT_TOKENS: usage.output,
        names.REASONING: usage.reasoning,
    }


def _first_chunk_seconds(event: RequestFinished, call: UpstreamCall) -> float | None:
    if not event.is_streamed or event.first_byte_seconds is None:
        return None
    return max(0.0, event.at + event.first_byte_seconds - call.started_at)


def _name(value: str | None) -> str | None:
    return shown_name(value) if value else None


def _read(value: object, fields: Iterable[str]) -> Attributes:
    return _known({field: getattr(value, field) for field in fields})


def _known(attributes: Mapping[str, AttributeValue | None]) -> Attributes:
    return {key: value for key, value in attributes.items() if value is not None}
