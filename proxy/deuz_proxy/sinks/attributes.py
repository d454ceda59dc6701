"""What the spans of many requests say alike, and those of a compile: attributes.

Rules:
- What is not known is left off: an absent count is no 0, an absent error no "none".
- Strings from outside pass through `redact`; a path shows API words only.
- An outcome that is not `ok` always has an `error.type`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deuz_proxy.observe import names
from deuz_proxy.observe.events import Compile, RequestFinished, UpstreamCall
from deuz_proxy.observe.redact import shown_name, shown_path, shown_source, shown_word
from deuz_proxy.observe.vocabulary import HTTP_METHODS, NONE
from deuz_proxy.sinks.otlp_bytes import AttributeValue

Attributes = Mapping[str, AttributeValue | None]

FIRST_ERROR_STATUS = 400


class Served(NamedTuple):
    """The fields of a request that many requests have in common."""

    method: str
    path: str
    status: int
    outcome: str
    error: str | None
    route: str
    upstream: str
    wire: str
    mode: str
    group: str | None
    passthrough: str | None
    usage_status: str


class Asked(NamedTuple):
    """What many requests have in common that is said of their calls."""

    method: str
    path: str
    wire: str
    upstream: str
    model: str | None
    max_output_tokens: int | None
    is_streamed: bool
    outcome: str
    response_model: str | None
    finish_reason: str | None
    server_address: str
    server_port: int | None


class Called(NamedTuple):
    """The fields of a call that many calls have in common."""

    status: int | None
    error: str | None
    purpose: str
    model: str | None


_FIELDS = tuple(dict.fromkeys((*Served._fields, *Asked._fields)))


def read_alike(event: RequestFinished) -> tuple[Any, ...]:
    """Return all that `Served` and `Asked` are made from, each field once.

    Spelled out: `attrgetter` takes three times as long.
    """
    return (
        event.method,
        event.path,
        event.status,
        event.outcome,
        event.error,
        event.route,
        event.upstream,
        event.wire,
        event.mode,
        event.group,
        event.passthrough,
        event.usage_status,
        event.model,
        event.max_output_tokens,
        event.is_streamed,
        event.response_model,
        event.finish_reason,
        event.server_address,
        event.server_port,
    )


def read_called(call: UpstreamCall) -> tuple[Any, ...]:
    """Return all that `Called` is made from."""
    return call.status, call.error, call.purpose, call.model


def served_and_asked(alike: Sequence[Any]) -> tuple[Served, Asked]:
    """Return both of what `read_alike` has read."""
    named = dict(zip(_FIELDS, alike, strict=True))
    served = Served(*[named[name] for name in Served._fields])
    return served, Asked(*[named[name] for name in Asked._fields])


def known_method(method: str) -> str:
    """Return the method, or the conventions' word for one that HTTP does not have."""
    return method if method in HTTP_METHODS else "_OTHER"


def server_attributes(served: Served) -> Attributes:
    """Return what the proxied request's own span says of many requests alike."""
    path = shown_path(served.path, served.upstream)
    return {
        names.HTTP_METHOD: known_method(served.method),
        names.HTTP_ROUTE: path,
        names.URL_PATH: path,
        names.URL_SCHEME: "http",
        names.HTTP_STATUS: served.status,
        names.ERROR_TYPE: request_error(served),
        names.ROUTE: served.route,
        names.UPSTREAM: served.upstream,
        names.WIRE: served.wire,
        names.MODE: served.mode,
        names.GROUP: served.group,
        names.OUTCOME: served.outcome,
        names.PASSTHROUGH: served.passthrough,
        names.USAGE_STATUS: served.usage_status,
    }


def request_error(served: Served) -> str | None:
    """Return why the request did not end well, None if it did."""
    if served.outcome == "ok" and served.status < FIRST_ERROR_STATUS:
        return None
    if served.error is not None:
        return shown_word(served.error)
    return served.outcome if served.outcome != "ok" else str(served.status)


def call_attributes(asked: Asked, called: Called, *, is_answer: bool) -> Attributes:
    """Return what one call to the upstream says of many calls alike.

    Only the call whose answer the client got (`is_answer`) has the answer's facts.
    """
    return {
        names.HTTP_METHOD: known_method(asked.method),
        names.HTTP_STATUS: called.status,
        names.SERVER_ADDRESS: asked.server_address or None,
        names.SERVER_PORT: asked.server_port if asked.server_address else None,
        names.PURPOSE: called.purpose,
        names.ERROR_TYPE: call_error(asked, called, is_answer=is_answer),
        **_inference_attributes(asked, called),
        **(_answer_attributes(asked) if is_answer else {}),
    }


def call_error(asked: Asked, called: Called, *, is_answer: bool) -> str | None:
    """Return why a call failed, None if it did not."""
    if called.error is not None:
        return shown_word(called.error)
    if called.status is not None and called.status >= FIRST_ERROR_STATUS:
        return str(called.status)
    return asked.outcome if is_answer and asked.outcome == "truncated" else None


def call_name(asked: Asked, called: Called) -> str:
    """Return the span name of a call: operation and model, else the method."""
    operation, model = names.operation_of(asked.path), called.model or asked.model
    if operation is None or model is None:
        return known_method(asked.method)
    return f"{operation} {shown_name(model)}"


def compile_attributes(compiled: Compile) -> Attributes:
    """Return the attributes of a compile of added context."""
    attributes: dict[str, AttributeValue] = {
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


def _inference_attributes(asked: Asked, called: Called) -> Attributes:
    operation, model = names.operation_of(asked.path), called.model or asked.model
    if operation is None or model is None:
        return {}
    return {
        names.OPERATION: operation,
        names.PROVIDER: names.provider_of(asked.wire) or shown_word(asked.upstream),
        names.REQUEST_MODEL: shown_name(model),
    }


def _answer_attributes(asked: Asked) -> Attributes:
    if asked.model is None:
        return {}
    reason = "error" if asked.outcome == "truncated" else asked.finish_reason
    return {
        names.REQUEST_STREAM: asked.is_streamed or None,
        names.REQUEST_MAX_TOKENS: asked.max_output_tokens,
        names.RESPONSE_MODEL: _name(asked.response_model),
        names.FINISH_REASONS: (shown_word(reason) or "",) if reason else None,
    }


def _name(value: str | None) -> str | None:
    return shown_name(value) if value else None
