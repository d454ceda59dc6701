"""Finished requests become spans here, and are handed to a batch.

Rules:
- Spans are made once, when the request is over: nothing is left open by a client that
  goes away, and ids are those that the request had from its start.
- Only the event is handed over: spans are made by the thread that sends them.
- A request that is not sampled costs nothing.
- Handing over never waits: the queue is bounded, and what does not fit is lost.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from deuz_proxy.observe import names
from deuz_proxy.observe.events import (
    Compile,
    Event,
    RequestFinished,
    Trace,
    UpstreamCall,
)
from deuz_proxy.observe.redact import shown_path
from deuz_proxy.observe.trace import NewId, nonzero_id
from deuz_proxy.sinks import attributes

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)
_ERROR = Status(StatusCode.ERROR)
_NANOSECONDS = 1_000_000_000
_FIRST_SERVER_ERROR = 500


class SpanSink:
    """Listens to events and offers sampled requests to a processor."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor
        self.offered = 0

    def __call__(self, event: Event) -> None:
        """Offer a finished request; its spans are made when it is its turn."""
        if (
            isinstance(event, RequestFinished)
            and event.trace
            and event.trace.is_sampled
        ):
            self.offered += 1
            self._processor.on_end(Offer(event))


class Offer(ReadableSpan):
    """A request in the processor's queue, which looks at the sampled flag alone."""

    _context = SpanContext(1, 1, is_remote=False, trace_flags=_SAMPLED)

    def __init__(self, event: RequestFinished) -> None:
        self.event = event


@dataclass(frozen=True, slots=True)
class SpanBuilder:
    """Builds spans; what it needs beside the event is the same for all of them."""

    resource: Resource
    scope: InstrumentationScope
    conventions: names.Conventions
    new_id: NewId

    def made_of(self, offer: ReadableSpan) -> tuple[ReadableSpan, ...]:
        """Return the spans of an offered request."""
        return self.build(offer.event) if isinstance(offer, Offer) else ()

    def build(self, event: RequestFinished) -> tuple[ReadableSpan, ...]:
        """Return the spans of a sampled request, the server's span last."""
        trace = event.trace
        if trace is None or not trace.is_sampled:
            return ()
        return tuple(_Request(event, trace, self).spans())


@dataclass(frozen=True, slots=True)
class _Piece:
    """What differs between the spans of one request."""

    name: str
    kind: SpanKind
    span_id: int
    parent: SpanContext | None
    started_at: float
    ended_at: float
    is_failed: bool = False


@dataclass(frozen=True, slots=True)
class _Request:
    event: RequestFinished
    trace: Trace
    builder: SpanBuilder

    def spans(self) -> Iterator[ReadableSpan]:
        if self.event.compile is not None:
            yield self._compile_span(self.event.compile)
        answer = _answer_of(self.event.upstream_calls)
        for index, call in enumerate(self.event.upstream_calls):
            yield self._call_span(call, index, is_answer=call is answer)
        yield self._server_span()

    def _server_span(self) -> ReadableSpan:
        event, parent_id = self.event, self.trace.parent_span_id
        path = shown_path(event.path, event.upstream)
        # By the HTTP conventions a client's mistake is no failure of the server.
        is_failed = event.status >= _FIRST_SERVER_ERROR or event.outcome == "truncated"
        piece = _Piece(
            name=f"{attributes.known_method(event.method)} {path}",
            kind=SpanKind.SERVER,
            span_id=self.trace.server_span_id,
            parent=self._context(parent_id, is_remote=True) if parent_id else None,
            started_at=event.at,
            ended_at=event.at + event.duration_seconds,
            is_failed=is_failed,
        )
        said = attributes.server_attributes(event)
        return self._span(piece, said, tuple(_span_events(event)))

    def _call_span(
        self, call: UpstreamCall, index: int, *, is_answer: bool
    ) -> ReadableSpan:
        event, builder = self.event, self.builder
        error = attributes.call_error(event, call, is_answer=is_answer)
        # The first call has the id that the upstream was told, if it was told one.
        piece = _Piece(
            name=attributes.call_name(event, call),
            kind=SpanKind.CLIENT,
            span_id=self._new_span_id() if index else self.trace.client_span_id,
            parent=self._server_context(),
            started_at=call.started_at,
            ended_at=call.started_at + call.duration_seconds,
            is_failed=error is not None,
        )
        said = attributes.call_attributes(
            event, call, builder.conventions, is_answer=is_answer
        )
        return self._span(piece, said)

    def _compile_span(self, compiled: Compile) -> ReadableSpan:
        piece = _Piece(
            name=names.COMPILE_SPAN,
            kind=SpanKind.INTERNAL,
            span_id=self._new_span_id(),
            parent=self._server_context(),
            started_at=compiled.started_at,
            ended_at=compiled.started_at + compiled.duration_seconds,
        )
        return self._span(piece, attributes.compile_attributes(compiled))

    def _span(
        self,
        piece: _Piece,
        said: attributes.Attributes,
        events: tuple[SpanEvent, ...] = (),
    ) -> ReadableSpan:
        return ReadableSpan(
            name=piece.name,
            context=self._context(piece.span_id, is_remote=False),
            parent=piece.parent,
            resource=self.builder.resource,
            attributes=said,
            events=events,
            kind=piece.kind,
            status=_ERROR if piece.is_failed else _UNSET,
            start_time=_nanoseconds(piece.started_at),
            end_time=_nanoseconds(piece.ended_at),
            instrumentation_scope=self.builder.scope,
        )

    def _server_context(self) -> SpanContext:
        return self._context(self.trace.server_span_id, is_remote=False)

    def _context(self, span_id: int, *, is_remote: bool) -> SpanContext:
        return SpanContext(self.trace.trace_id, span_id, is_remote, _SAMPLED)

    def _new_span_id(self) -> int:
        return nonzero_id(self.builder.new_id, 64)


def _answer_of(calls: tuple[UpstreamCall, ...]) -> UpstreamCall | None:
    """Return the call whose answer went to the client: the last that is no summary."""
    answers = [call for call in calls if call.purpose != "summarize"]
    return answers[-1] if answers else None


def _span_events(event: RequestFinished) -> Iterator[SpanEvent]:
    at = _nanoseconds(event.at + event.duration_seconds)
    if event.verdict is not None:
        said = attributes.verdict_attributes(event.verdict)
        yield SpanEvent(names.VERDICT_EVENT, said, at)
    for overflow in event.overflows:
        said = attributes.overflow_attributes(overflow)
        yield SpanEvent(names.OVERFLOW_EVENT, said, at)
    for compaction in event.compactions:
        said = attributes.compaction_attributes(compaction)
        yield SpanEvent(names.COMPACTION_EVENT, said, at)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * _NANOSECONDS)
