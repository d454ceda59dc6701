"""Forward: send the request and wait for the answer's head.

Rules:
- Where recovery is on, nothing goes to the client before the first decisive event.
- What is held is bounded; an answer that outgrows the bound is relayed as it is.
- An answer counts as accepted when its status is good and its first decisive event is
  not an error.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from msgspec.structs import replace

from deuz_compiler import ReplyFacts, open_meter, recognise_overflow
from deuz_proxy.calls import Body, Call, Headers, Reply, Sent
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.events import UpstreamCall
from deuz_proxy.observe.inflate import Decoded
from deuz_proxy.observe.trace import format_traceparent
from deuz_proxy.observe.watch import Watch
from deuz_proxy.overflows import text_headers
from deuz_proxy.runtime import Runtime

# Far above any provider's error; an answer this long without content is not one.
MAX_HELD_BYTES = 1_048_576
_FIRST_GOOD, _FIRST_REDIRECT, _FIRST_BAD = 200, 300, 400


@dataclass(frozen=True, slots=True)
class ClosedMeter:
    """A meter that has seen all it needs to; what follows changes nothing."""

    facts: ReplyFacts
    decisive: str | None

    def feed(self, chunk: bytes) -> None:
        """Let the chunk go."""

    def close(self) -> ReplyFacts:
        """Return the facts."""
        return self.facts


async def forward_call(
    call: Call, body: Body | None, runtime: Runtime, watch: Watch
) -> Sent:
    """Send the call with this body and return its answer, held as far as needed.

    Raises:
        UpstreamUnreachable: no connection could be made.
        UpstreamBroken: the connection ended before the head.
    """
    started_at, start = runtime.clock(), runtime.monotonic()
    headers = _outgoing_headers(call, body, runtime)
    with watch.waiting():
        reply = await runtime.upstreams.send(
            method=call.incoming.method,
            base=call.target.url,
            path=call.target.path,
            headers=headers,
            body=_stream(call) if body is None else call.as_sent(body),
            upgrade=call.incoming.upgrade,
            inform=call.incoming.inform,
            letterhead=call.incoming.letterhead if headers is call.headers else None,
        )
    sent = _sent(call, reply, runtime, (started_at, runtime.monotonic() - start))
    if not is_guarded(call, runtime):
        return sent
    if (body := reply.body_here()) is not None:
        # Most answers that are no stream: there is nothing to wait for.
        return _whole(sent, body)
    try:
        with watch.waiting():
            return await _hold(sent)
    except BaseException:
        # Nobody else knows of this answer yet: a client that left ends it here.
        reply.close()
        raise


def is_guarded(call: Call, runtime: Runtime) -> bool:
    """Tell whether an overflow of this call may be recovered."""
    is_compiling = call.envelope is not None and call.target.mode == "compile"
    return is_compiling and runtime.config.overflow.recover


def _outgoing_headers(call: Call, body: Body | None, runtime: Runtime) -> Headers:
    """Return the client's lines; with `propagate`, our span as the parent."""
    headers = call.headers
    if call.packed is not None and body is not call.body:
        # What was spliced goes out plain: its label goes.
        headers = _without(headers, b"content-encoding")
    if not runtime.config.telemetry.propagate or call.trace is None:
        return headers
    parent = format_traceparent(call.trace).encode()
    return (*_without(headers, b"traceparent"), (b"traceparent", parent))


def _without(headers: Headers, name: bytes) -> Headers:
    return [line for line in headers if line[0].lower() != name]


def _stream(call: Call) -> AsyncIterator[bytes] | None:
    return call.incoming.stream_body() if call.incoming.has_body else None


def as_it_came(chunk: bytes) -> bytes:
    """Return the chunk of a body that has no coding."""
    return chunk


def _sent(
    call: Call, reply: Reply, runtime: Runtime, times: tuple[float, float]
) -> Sent:
    codings = reply.codings
    meter = open_meter(
        call.target.api,
        is_event_stream=reply.kind.lower().startswith(b"text/event-stream"),
        headers=reply.headers,
    )
    started_at, seconds = times
    return Sent(
        reply,
        (),
        None,
        meter,
        Decoded(codings) if codings else as_it_came,
        # A redirect is not an answer of the model.
        _FIRST_GOOD <= reply.status < _FIRST_REDIRECT,
        UpstreamCall(started_at, seconds, reply.status, None),
    )


def _whole(sent: Sent, body: bytes) -> Sent:
    """Return an answer that is all here as held; recognise an overflow in it."""
    decode, meter, is_accepted = sent.decode, sent.meter, sent.is_accepted
    plain = decode(body)
    meter.feed(plain)
    # It is fed nothing more: what is whole is metered once.
    meter.close()
    # In the order of its fields: half of what it takes by name.
    parts = sent.reply, (body,), None, meter, decode, is_accepted, sent.call
    held = Sent(*parts, is_whole=True)
    is_well = is_accepted and meter.decisive != "error"
    return held if is_well else _recognised(held, plain)


async def _hold(sent: Sent) -> Sent:
    """Read until the answer shows what it is; recognise an overflow in it."""
    if sent.reply.status >= _FIRST_BAD:
        return _recognised(*await _read(sent, lambda: False))
    first = sent
    return _recognised(*await _read(sent, lambda: _is_decided(first)))


def _recognised(sent: Sent, plain: bytes) -> Sent:
    """Return the answer with the overflow that it tells of; `plain` is what it says."""
    status = sent.reply.status
    if status >= _FIRST_BAD:
        headers = text_headers(sent.reply.headers)
        signal = recognise_overflow(status, plain, headers=headers)
        return replace(sent, overflow=signal)
    if sent.meter.decisive != "error":
        return sent
    facts = sent.meter.close()
    signal = recognise_overflow(status, facts.error_body or b"", is_stream_event=True)
    meter = ClosedMeter(facts, "error")
    return replace(sent, overflow=signal, is_accepted=False, meter=meter)


def _is_decided(sent: Sent) -> bool:
    is_blind = isinstance(sent.decode, Decoded) and sent.decode.is_blind
    return is_blind or sent.meter.decisive is not None


async def _read(sent: Sent, is_enough: Callable[[], bool]) -> tuple[Sent, bytes]:
    """Return the answer with its first chunks held, and what they say, decoded.

    One that breaks off meanwhile is held as far as it came, and breaks off behind that.
    """
    held: list[bytes] = []
    plain: list[bytes] = []
    length = 0
    rest = sent.reply.chunks()
    sent = replace(sent, rest=rest)
    try:
        async for chunk in rest:
            held.append(chunk)
            plain.append(sent.decode(chunk))
            sent.meter.feed(plain[-1])
            length += len(chunk)
            if length > MAX_HELD_BYTES or is_enough():
                break
        else:
            # Of a body in one piece, all is known at its end only.
            facts = sent.meter.close()
            sent = replace(sent, meter=ClosedMeter(facts, sent.meter.decisive))
    except UpstreamBroken as fault:
        sent = replace(sent, rest=_broken(fault))
    return replace(sent, held=tuple(held)), b"".join(plain)


async def _broken(fault: UpstreamBroken) -> AsyncIterator[bytes]:
    raise fault
    yield b""
