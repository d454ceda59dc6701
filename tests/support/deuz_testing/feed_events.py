"""Events as the line would emit them, for tests of the feed, the API and the page."""

from typing import Any

from msgspec.structs import replace

from deuz_compiler import SegmentShare, Usage, Verdict
from deuz_proxy.observe.events import (
    Compaction,
    Compile,
    Overflow,
    Placement,
    RecordDecision,
    RequestFinished,
    RequestStarted,
    SourceOutcome,
    Trace,
    UpstreamCall,
)

START = 1_790_000_000.0

PLAIN = RequestFinished(
    request_id="r1",
    route="/v1/messages",
    upstream="anthropic",
    wire="anthropic",
    mode="observe",
    method="POST",
    path="/v1/messages",
    model="claude-sonnet-4-5",
    response_model="claude-sonnet-4-5-20250929",
    status=200,
    outcome="ok",
    error=None,
    at=START,
    duration_seconds=1.24,
    first_byte_seconds=0.31,
    is_streamed=True,
    request_bytes=48_210,
    response_bytes=2_113,
    stages=("admit", "forward", "total"),
    stage_seconds=(0.00021, 0.00008, 0.00034),
    passthrough=None,
    conversation="c1",
    usage=Usage(input_uncached=120, cache_read=0, cache_write=3_000, output=80),
    usage_status="reported",
    finish_reason="end_turn",
    response_id="msg_1",
    estimated_input_tokens=3_090,
    verdict=Verdict("first"),
)


def finished(request_id: str = "r1", **changes: Any) -> RequestFinished:
    """A finished request; what a test does not say is plain."""
    return replace(PLAIN, request_id=request_id, **changes)


def started(request_id: str = "r1", **changes: Any) -> RequestStarted:
    """An admitted request."""
    begun = RequestStarted(request_id, "/v1/messages", "anthropic", START)
    return replace(begun, **changes)


def broken(**changes: Any) -> Verdict:
    """A break that the client caused by the time in its system prompt."""
    values: dict[str, Any] = {
        "verdict": "broken",
        "segment": "system",
        "cause": "system_time",
        "owner": "client",
        "offset": 412,
        "lost_tokens": 9_400,
    }
    return Verdict(**(values | changes))


def compiled(**changes: Any) -> Compile:
    """A compile of two sources, one late, with three manifest lines."""
    docs = SourceOutcome("docs", "rag", "ok", 0.0041, 1, 1, 240)
    rules = SourceOutcome("rules", "memory", "late", 0.3, 1, 0, 60)
    lines = (
        line("rules", "memory", "r-units", is_selected=True, reason="mandatory"),
        line("docs", "rag", "guide.md#2", is_selected=True, reason="ranked"),
        line("docs", "rag", "guide.md#9", is_selected=False, reason="over-budget"),
    )
    values: dict[str, Any] = {
        "started_at": START,
        "duration_seconds": 0.0062,
        "refresh_reason": "fresh-turn",
        "fallback": None,
        "selected": 2,
        "excluded": 1,
        "tokens": 300,
        "budget_tokens": 2_000,
        "estimator": "shapes",
        "is_prefix_changed": False,
        "manifest_digest": "sha256:" + "ab" * 32,
        "sources": (docs, rules),
        "records": lines,
    }
    return Compile(**(values | changes))


def line(
    source: str, kind: str, record_id: str, *, is_selected: bool, reason: str
) -> RecordDecision:
    """One manifest line."""
    return RecordDecision(
        source, kind, record_id, "1", "sha256:" + "cd" * 32, 240, is_selected, reason
    )


def agent_session() -> tuple[RequestFinished, ...]:
    """Eight requests with all that the page has to tell, oldest first.

    A first request, context placed, a break by the client, an overflow recovered, a
    cache that expired, a side call, another client's failure, and a plain passthrough.
    """
    here = Placement(4, ("r-units", "guide.md#2"), 300, is_new=True)
    kept = replace(here, is_new=False)
    return (
        finished("r1", segments=shares((0, 0, 2_000), (0, 0, 800), (0, 0, 290))),
        finished(
            "r2",
            at=START + 9,
            mode="compile",
            verdict=Verdict("extended", expected_tokens=3_000, missed_tokens=0),
            segments=shares((2_000, 0, 0), (800, 0, 0), (290, 0, 410), (0, 0, 300)),
            placements=(here,),
            compile=compiled(),
            usage=Usage(
                input_uncached=80, cache_read=3_000, cache_write=720, output=210
            ),
            trace=Trace(0xABC, 0, is_sampled=True, server_span_id=1, client_span_id=2),
            upstream_calls=(UpstreamCall(START + 8, 1.2, 200, None),),
        ),
        finished(
            "r3",
            at=START + 21,
            mode="compile",
            verdict=broken(
                lost_tokens=1_800, expected_tokens=3_800, missed_tokens=1_800
            ),
            segments=shares((2_000, 0, 0), (0, 800, 0), (0, 700, 500), (0, 300, 0)),
            placements=(kept,),
            usage=Usage(
                input_uncached=90, cache_read=2_000, cache_write=2_200, output=64
            ),
        ),
        finished(
            "r4",
            at=START + 40,
            mode="compile",
            verdict=broken(
                segment="turn",
                cause="overflow_recovery",
                owner="sidecar",
                index=3,
                offset=None,
                lost_tokens=6_120,
            ),
            segments=shares((2_000, 0, 0), (800, 0, 0), (700, 0, 2_480), (300, 0, 0)),
            placements=(kept,),
            overflows=(Overflow("rejected", "recovered", 8_192, 9_921),),
            compactions=(
                Compaction("prune-tool-results", "rejected", 9_921, 7_400),
                Compaction("summarize", "rejected", 7_400, 6_280),
            ),
            usage=Usage(
                input_uncached=2_480, cache_read=3_800, cache_write=0, output=512
            ),
            upstream_calls=(
                UpstreamCall(START + 36, 0.2, 400, None),
                UpstreamCall(START + 37, 1.1, 200, None, purpose="summarize"),
                UpstreamCall(START + 38, 1.6, 200, None, purpose="retry"),
            ),
        ),
        finished(
            "r5",
            at=START + 900,
            mode="compile",
            verdict=Verdict(
                "extended",
                segment="turn",
                cause="ttl_expired",
                owner="ttl",
                lost_tokens=6_200,
                expected_tokens=6_200,
                missed_tokens=6_200,
            ),
            segments=shares((2_000, 0, 0), (800, 0, 0), (3_180, 0, 340), (300, 0, 0)),
            placements=(kept,),
            usage=Usage(input_uncached=0, cache_read=0, cache_write=6_620, output=90),
        ),
        finished(
            "r6",
            at=START + 902,
            model="claude-haiku-4-5",
            verdict=Verdict("side_call"),
            segments=shares((0, 0, 0), (0, 0, 90), (0, 0, 310)),
            usage=Usage(input_uncached=400, cache_read=0, cache_write=0, output=12),
        ),
        finished(
            "r7",
            at=START + 905,
            route="/v1/chat/completions",
            path="/v1/chat/completions",
            upstream="openai",
            wire="openai_chat",
            model="gpt-5.1",
            conversation="c2",
            status=429,
            outcome="upstream_error",
            error="rate_limit_error",
            usage=None,
            usage_status="absent",
            segments=shares((0, 0, 640), (0, 0, 210), (0, 0, 1_200)),
        ),
        finished(
            "r8",
            at=START + 907,
            route="/v1/models",
            path="/v1/models",
            method="GET",
            upstream="openai",
            wire="openai",
            model=None,
            response_model=None,
            conversation=None,
            verdict=None,
            usage=None,
            usage_status="absent",
            is_streamed=False,
            passthrough="unknown_endpoint",
        ),
    )


def shares(*counts: tuple[int, int, int]) -> tuple[SegmentShare, ...]:
    """Segment shares in the provider's order: tools, system, turn, context."""
    names = ("tools", "system", "turn", "context")
    return tuple(
        SegmentShare(name, *count) for name, count in zip(names, counts, strict=False)
    )
