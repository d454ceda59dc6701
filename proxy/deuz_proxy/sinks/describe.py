"""Events as JSON-ready values for the admin API and the live page.

Rules:
- A request's field is listed here or not told: no new field leaks by chance.
- Strings from outside are cut and cleaned by `redact`; of a path only the words of an
  API are told, and never its query, which carries the key at some providers.
- Unknown stays null; it never becomes 0.
"""

import msgspec
from msgspec.structs import replace

from deuz_compiler import Usage
from deuz_proxy.observe.events import Compile, RequestFinished, Trace
from deuz_proxy.observe.redact import shown_name, shown_path, shown_word

Described = dict[str, object]


def describe_request(event: RequestFinished) -> Described:
    """Describe a request for JSON, without manifest lines and upstream calls."""
    return {
        "id": event.request_id,
        "at": event.at,
        "route": event.route,
        "upstream": event.upstream,
        "wire": event.wire,
        "mode": event.mode,
        "group": event.group,
        "method": event.method,
        "path": shown_path(event.path, event.upstream),
        "model": event.model and shown_name(event.model),
        "status": event.status,
        "outcome": event.outcome,
        "error": shown_word(event.error),
        "passthrough": event.passthrough,
        "conversation": event.conversation,
        "verdict": msgspec.to_builtins(event.verdict),
        "segments": msgspec.to_builtins(event.segments),
        "placements": msgspec.to_builtins(event.placements),
        "prediction": msgspec.to_builtins(event.prediction),
        "usage": describe_usage(event.usage),
        "usage_status": event.usage_status,
        "estimated_input_tokens": event.estimated_input_tokens,
        "compile": event.compile
        and describe_compile(replace(event.compile, records=())),
        "overflows": msgspec.to_builtins(event.overflows),
        "compactions": msgspec.to_builtins(event.compactions),
        "is_streamed": event.is_streamed,
        "sidecar_mutations": event.sidecar_mutations,
        "timings": {
            "duration_seconds": event.duration_seconds,
            "first_byte_seconds": event.first_byte_seconds,
            "stages": dict(zip(event.stages, event.stage_seconds, strict=True)),
        },
    }


def describe_in_full(event: RequestFinished) -> Described:
    """Describe a request for JSON with all that is known of it."""
    return describe_request(event) | {
        "response_model": event.response_model and shown_name(event.response_model),
        "response_id": event.response_id and shown_name(event.response_id),
        "finish_reason": shown_word(event.finish_reason),
        "max_output_tokens": event.max_output_tokens,
        "request_bytes": event.request_bytes,
        "response_bytes": event.response_bytes,
        "server_address": event.server_address,
        "server_port": event.server_port,
        "upstream_calls": msgspec.to_builtins(event.upstream_calls),
        "compile": event.compile and describe_compile(event.compile),
        "trace": event.trace and describe_trace(event.trace),
    }


def describe_usage(usage: Usage | None) -> Described | None:
    """Describe an answer's counts for JSON; what was not reported stays null."""
    if usage is None:
        return None
    described: Described = msgspec.to_builtins(usage)
    return described | {"input_total": usage.input_total}


def describe_compile(compiled: Compile) -> Described:
    """Describe a compile for JSON: its sums, sources and manifest lines."""
    described: Described = msgspec.to_builtins(compiled)
    return described


def describe_trace(trace: Trace) -> Described:
    """Describe a trace the way trace viewers write it: as JSON numbers ids are cut."""
    return {"trace_id": f"{trace.trace_id:032x}", "is_sampled": trace.is_sampled}
