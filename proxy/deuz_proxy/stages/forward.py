"""Forward: send the request and wait for the answer's head.

Rules:
- Where recovery is on, nothing goes to the client before the first decisive event.
- What is held is bounded; an answer that outgrows the bound is relayed as it is.
- An answer counts as accepted when its status is good and its first decisive event is
  not an error.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

from deuz_compiler import OverflowSignal, open_meter, recognise_overflow
from deuz_proxy.calls import Call, Headers, Reply, Sent, header
from deuz_proxy.observe.events import UpstreamCall
from deuz_proxy.observe.inflate import Decoded
from deuz_proxy.observe.trace import format_traceparent
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime

# Far above any provider's error; an answer this long without content is not one.
MAX_HELD_BYTES = 1_048_576
_FIRST_BAD = 400


async def forward_call(
    call: Call, body: bytes | None, runtime: Runtime, watch: Watch
) -> Sent:
    """Send the call with this body and return its answer, held as far as needed.

    Raises:
        UpstreamUnreachable: no connection could be made.
        UpstreamBroken: the connection ended before the head.
    """
    started_at, start = runtime.clock(), runtime.monotonic()
    with watch.waiting():
        reply = await runtime.upstreams.send(
            method=call.incoming.method,
            base=call.target.url,
            path=call.target.path,
            headers=_outgoing_headers(call, runtime),
            body=body if body is not None else _stream(call),
        )
    sent = _sent(call, reply, runtime, (started_at, runtime.monotonic() - start))
    if not is_guarded(call, runtime):
        return sent
    with watch.waiting():
        return await _hold(sent)


def is_guarded(call: Call, runtime: Runtime) -> bool:
    """Tell whether an overflow of this call may be recovered."""
    is_compiling = call.envelope is not None and call.target.mode == "compile"
    return is_compiling and runtime.config.overflow.recover


def _outgoing_headers(call: Call, runtime: Runtime) -> Headers:
    """Return the client's lines; with `propagate`, our span as the parent."""
    if not runtime.config.telemetry.propagate or call.trace is None:
        return call.headers
    others = [line for line in call.headers if line[0].lower() != b"traceparent"]
    return (*others, (b"traceparent", format_traceparent(call.trace).encode()))


def _stream(call: Call) -> AsyncIterator[bytes] | None:
    return call.incoming.stream_body() if call.incoming.has_body else None


def _sent(
    call: Call, reply: Reply, runtime: Runtime, times: tuple[float, float]
) -> Sent:
    kind = header(reply.headers, b"content-type") or b""
    meter = open_meter(
        call.target.api, is_event_stream=kind.lower().startswith(b"text/event-stream")
    )
    started_at, seconds = times
    return Sent(
        reply=reply,
        held=(),
        rest=reply.chunks(),
        meter=meter,
        decode=Decoded(header(reply.headers, b"content-encoding")),
        is_accepted=reply.status < _FIRST_BAD,
        call=UpstreamCall(started_at, seconds, reply.status, None),
    )


async def _hold(sent: Sent) -> Sent:
    """Read until the answer shows what it is; recognise an overflow in it."""
    if sent.reply.status >= _FIRST_BAD:
        held, plain = await _read_error(sent)
        signal = recognise_overflow(
            sent.reply.status, plain, headers=text_headers(sent.reply.headers)
        )
        return _with_held(sent, held, signal, is_accepted=False)
    held = await _read_until_decisive(sent)
    signal = None
    if sent.meter.decisive == "error":
        more, _ = await _read_error(sent)
        held += more
        error_body = sent.meter.close().error_body or b""
        signal = recognise_overflow(sent.reply.status, error_body, is_stream_event=True)
    is_accepted = sent.meter.decisive != "error"
    return _with_held(sent, held, signal, is_accepted=is_accepted)


def _with_held(
    sent: Sent,
    held: tuple[bytes, ...],
    signal: OverflowSignal | None,
    *,
    is_accepted: bool,
) -> Sent:
    return replace(sent, held=held, overflow=signal, is_accepted=is_accepted)


async def _read_until_decisive(sent: Sent) -> tuple[bytes, ...]:
    held: list[bytes] = []
    length = 0
    async for chunk in sent.rest:
        held.append(chunk)
        length += len(chunk)
        sent.meter.feed(sent.decode(chunk))
        if sent.meter.decisive is not None or length > MAX_HELD_BYTES:
            break
        if isinstance(sent.decode, Decoded) and sent.decode.is_blind:
            break
    return tuple(held)


async def _read_error(sent: Sent) -> tuple[tuple[bytes, ...], bytes]:
    """Return an error's chunks and its decoded text, as far as the bound allows."""
    held: list[bytes] = []
    plain: list[bytes] = []
    length = 0
    async for chunk in sent.rest:
        held.append(chunk)
        length += len(chunk)
        decoded = sent.decode(chunk)
        plain.append(decoded)
        sent.meter.feed(decoded)
        if length > MAX_HELD_BYTES:
            break
    return tuple(held), b"".join(plain)


def text_headers(headers: Headers) -> dict[str, str]:
    """Return header lines as text, names in lower case, the last of each name."""
    return {
        name.decode("latin-1").lower(): value.decode("latin-1")
        for name, value in headers
    }
