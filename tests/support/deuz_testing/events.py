"""Builders of events: everything plausible, what matters given by the test."""

from typing import Any

from msgspec.structs import replace

from deuz_compiler import Usage, Verdict
from deuz_proxy.observe.events import (
    Compaction,
    Compile,
    LedgerUsed,
    Overflow,
    Prediction,
    RecordDecision,
    RequestFinished,
    RequestStarted,
    SourceOutcome,
    Trace,
    UpstreamCall,
)

STARTED_AT = 1_700_000_000.0

TRACE = Trace(
    trace_id=0x0AF7651916CD43DD8448EB211C80319C,
    parent_span_id=0xB7AD6B7169203331,
    is_sampled=True,
    server_span_id=0x1111111111111111,
    client_span_id=0x2222222222222222,
)

_PLAIN = RequestFinished(
    request_id="r-1",
    route="chat",
    upstream="openai",
    wire="openai_chat",
    mode="observe",
    method="POST",
    path="/v1/chat/completions",
    model="gpt-x",
    response_model="gpt-x-2026",
    status=200,
    outcome="ok",
    error=None,
    at=STARTED_AT,
    duration_seconds=2.0,
    first_byte_seconds=0.5,
    is_streamed=True,
    request_bytes=2_000,
    response_bytes=4_000,
    stages=("admit", "settle"),
    stage_seconds=(0.0002, 0.0003),
    passthrough=None,
    conversation="c-1",
    usage=Usage(
        input_uncached=100, cache_read=900, cache_write=0, output=50, reasoning=20
    ),
    usage_status="reported",
    finish_reason="stop",
    response_id="resp-1",
    estimated_input_tokens=800,
    verdict=Verdict("extended", expected_tokens=900, missed_tokens=0),
    upstream_calls=(UpstreamCall(STARTED_AT + 0.25, 1.7, 200, None),),
    max_output_tokens=512,
    server_address="api.openai.com",
    server_port=443,
    trace=TRACE,
)


def started(route: str = "chat") -> RequestStarted:
    """Return the start of a request."""
    return RequestStarted("r-1", route, "openai_chat", STARTED_AT)


PREDICTION = Prediction("kept", "extended", None, 240, 1_340, 900)


def finished(**changes: Any) -> RequestFinished:
    """Return a streamed chat request that went well, but for the changes."""
    return replace(_PLAIN, **changes)


def compiled(**changes: Any) -> Compile:
    """Return a compile with one selected and one excluded record."""
    plain = Compile(
        started_at=STARTED_AT + 0.1,
        duration_seconds=0.004,
        refresh_reason="initial",
        fallback=None,
        selected=1,
        excluded=1,
        tokens=300,
        budget_tokens=1_000,
        estimator="bytes",
        is_prefix_changed=False,
        manifest_digest="sha256:00",
        sources=(SourceOutcome("docs", "rag", "ok", 0.003, 1, 1, 300),),
        records=(
            RecordDecision("docs", "rag", "a", "1", "sha256:0a", 300, True, "ranked"),
            RecordDecision("docs", "rag", "b", "1", "sha256:0b", 900, False, "expired"),
        ),
    )
    return replace(plain, **changes)


def overflown(**changes: Any) -> RequestFinished:
    """Return a request that overflowed, was made smaller and sent once more."""
    return finished(
        overflows=(Overflow("rejected", "recovered", 8_000, 9_500),),
        compactions=(Compaction("prune-tool-results", "overflow", 9_500, 6_000),),
        upstream_calls=(
            UpstreamCall(STARTED_AT + 0.1, 0.2, 400, None),
            UpstreamCall(
                STARTED_AT + 0.4, 0.5, 200, None, "summarize", "mini", Usage(output=70)
            ),
            UpstreamCall(STARTED_AT + 1.0, 0.9, 200, None, "retry"),
        ),
        **changes,
    )


def ledger_used(op: str = "read", **changes: Any) -> LedgerUsed:
    """Return one operation of a ledger in memory."""
    return replace(LedgerUsed(op, "ok", "memory", 3, 40, 9_000), **changes)
