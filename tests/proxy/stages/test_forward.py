import asyncio
import gzip
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from deuz_proxy.calls import Sent
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.events import Trace
from deuz_proxy.observe.watch import Watch
from deuz_proxy.overflows import text_headers
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.forward import MAX_HELD_BYTES, forward_call
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.conversation import admitted, anthropic_answer, anthropic_overflow
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest, Said, ScriptedReply, ScriptedUpstreams

BODY = anthropic_body([user("q")])
EVENTS = ((b"Content-Type", b"text/event-stream; charset=utf-8"),)
START = b'data: {"type":"message_start","message":{"id":"m"}}\n\n'
CONTENT = (
    b'data: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"a"}}\n\n'
)


@pytest.fixture
def runtime() -> Runtime:
    return make_runtime(make_config(), Told())


async def forwarded(runtime: Runtime, said: Said, **changes: Any) -> Sent:
    upstreams = runtime.upstreams
    assert isinstance(upstreams, ScriptedUpstreams)
    await upstreams.answers.put(said)
    call = await admitted(runtime, GivenRequest(BODY))
    return await forward_call(
        msgspec.structs.replace(call, **changes),
        call.body,
        runtime,
        Watch(runtime.monotonic),
    )


async def rest_of(sent: Sent) -> bytes:
    return b"".join([chunk async for chunk in sent.rest or sent.reply.chunks()])


async def test_a_stream_is_held_up_to_its_first_content(runtime: Runtime) -> None:
    said = Said(200, (START, CONTENT, CONTENT, b"more"), EVENTS)

    sent = await forwarded(runtime, said)

    assert sent.held == (START, CONTENT)
    assert await rest_of(sent) == CONTENT + b"more"
    assert sent.is_accepted


async def test_a_compressed_body_goes_out_as_it_came_or_plain_without_its_label(
    runtime: Runtime,
) -> None:
    upstreams = runtime.upstreams
    assert isinstance(upstreams, ScriptedUpstreams)
    lines = ((b"x-api-key", b"k"), (b"Content-Encoding", b"gzip"), (b"x-b", b"2"))
    packed = gzip.compress(BODY)
    call = await admitted(runtime, GivenRequest(packed, headers=lines))

    for body in (call.body, b"spliced"):
        await upstreams.answers.put(anthropic_answer("Fine."))
        await forward_call(call, body, runtime, Watch(runtime.monotonic))
    same, spliced = [await upstreams.asked.get() for _ in range(2)]

    assert (same.body, same.headers) == (packed, lines)
    assert spliced.body == b"spliced"
    assert spliced.headers == [lines[0], lines[2]]


async def test_a_route_that_only_observes_holds_nothing() -> None:
    runtime = make_runtime(make_config(mode="observe"), Told())

    sent = await forwarded(runtime, anthropic_overflow())

    assert sent.held == ()
    assert sent.overflow is None
    assert not sent.is_accepted


async def test_a_body_in_one_piece_is_held_whole_and_metered_once(
    runtime: Runtime,
) -> None:
    sent = await forwarded(runtime, anthropic_answer("Fine."))

    assert b"".join(sent.held) == anthropic_answer("Fine.").chunks[0]
    assert sent.meter.decisive == "content"
    sent.meter.feed(b"what follows changes nothing")
    assert sent.meter.close().usage == sent.meter.close().usage
    assert sent.meter.close().finish_reason == "end_turn"


async def test_an_error_in_a_good_answer_is_not_an_accepted_request(
    runtime: Runtime,
) -> None:
    sent = await forwarded(runtime, replace(anthropic_overflow(), status=200))

    assert not sent.is_accepted
    assert sent.overflow is not None
    assert sent.overflow.limit_tokens == 200_000


@pytest.mark.parametrize(
    ("status", "is_accepted"), [(200, True), (204, True), (307, False), (400, False)]
)
async def test_only_a_good_answer_means_acceptance(
    runtime: Runtime, status: int, is_accepted: bool
) -> None:
    sent = await forwarded(runtime, Said(status))

    assert sent.is_accepted == is_accepted


@pytest.mark.parametrize("status", [200, 500])
async def test_what_is_held_is_bounded(runtime: Runtime, status: int) -> None:
    chunk = b": ping\n\n" * 40_000
    said = Said(status, (chunk,) * 9, EVENTS)

    sent = await forwarded(runtime, said)

    held = sum(map(len, sent.held))
    assert MAX_HELD_BYTES < held <= MAX_HELD_BYTES + len(chunk)
    assert held + len(await rest_of(sent)) == 9 * len(chunk)


async def test_what_cannot_be_decoded_is_not_held(runtime: Runtime) -> None:
    lines = (*EVENTS, (b"content-encoding", b"made-up"))

    sent = await forwarded(runtime, Said(200, (b"a", b"b"), lines))

    assert sent.held == (b"a",)


async def test_a_compressed_error_is_recognised(runtime: Runtime) -> None:
    packed = gzip.compress(anthropic_overflow().chunks[0])
    lines = ((b"Content-Encoding", b"gzip"),)

    sent = await forwarded(runtime, Said(400, (packed[:20], packed[20:]), lines))

    assert sent.overflow is not None
    assert sent.held == (packed[:20], packed[20:])


@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_breaks_while_held_breaks_behind_what_came(
    runtime: Runtime, status: int
) -> None:
    said = Said(status, (START,), EVENTS, UpstreamBroken(upstream="u"))

    sent = await forwarded(runtime, said)

    assert sent.held == (START,)
    with pytest.raises(UpstreamBroken):
        await rest_of(sent)


async def test_a_held_answer_whose_client_left_is_ended(runtime: Runtime) -> None:
    class Stuck(ScriptedReply):
        async def chunks(self) -> Any:
            yield START
            held.set()
            await asyncio.Event().wait()

    held = asyncio.Event()
    reply = Stuck(Said(200, (), EVENTS))

    class Upstreams(ScriptedUpstreams):
        async def send(self, **_: Any) -> ScriptedReply:
            return reply

    task = asyncio.ensure_future(
        forwarded(replace(runtime, upstreams=Upstreams()), Said())
    )
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert reply.is_closed


TRACE = Trace(0xAB, 0, is_sampled=True, server_span_id=1, client_span_id=2)


@pytest.mark.parametrize("propagates", [False, True])
async def test_trace_lines_are_added_only_where_they_are_wanted(
    propagates: bool,
) -> None:
    more = f"telemetry: {{propagate: {str(propagates).lower()}}}"
    runtime = make_runtime(make_config(more=more), Told())
    mine = ((b"Traceparent", b"mine"), (b"tracestate", b"s"))

    await forwarded(runtime, Said(), headers=mine, trace=TRACE)

    upstreams = runtime.upstreams
    assert isinstance(upstreams, ScriptedUpstreams)
    asked = upstreams.asked.get_nowait()
    if not propagates:
        assert asked.headers == mine
        return
    assert asked.headers[0] == mine[1]
    name, value = asked.headers[1]
    assert name == b"traceparent"
    assert value.startswith(b"00-" + b"0" * 30 + b"ab-")
    assert b"-0000000000000002-" in value


async def test_a_body_that_was_not_read_is_streamed(runtime: Runtime) -> None:
    upstreams = runtime.upstreams
    assert isinstance(upstreams, ScriptedUpstreams)
    for incoming in (GivenRequest(b"raw", "/v1/files"), GivenRequest(b"", "/v1/x")):
        await upstreams.answers.put(Said())
        call = await admitted(runtime, incoming)
        await forward_call(call, None, runtime, Watch(runtime.monotonic))

        assert upstreams.asked.get_nowait().body == incoming.body


def test_header_lines_as_text_have_lower_case_names_and_the_last_value() -> None:
    lines = [(b"X-A", b"1"), (b"x-a", b"\xff")]

    assert text_headers(lines) == {"x-a": "\u00ff"}


@pytest.mark.parametrize(
    "said",
    [
        anthropic_answer("Fine."),
        anthropic_overflow(),
        replace(anthropic_overflow(), status=200),
        Said(500, (b'{"type":"error","error":{"type":"api_error"}}',)),
        Said(200, (START + CONTENT + CONTENT,), EVENTS),
        Said(200, (b"a",), (*EVENTS, (b"content-encoding", b"made-up"))),
    ],
)
async def test_an_answer_that_is_here_is_judged_like_one_that_comes(
    runtime: Runtime, said: Said
) -> None:
    comes = await forwarded(runtime, said)
    here = await forwarded(runtime, replace(said, is_here=True))

    assert here.is_whole
    assert here.held == said.chunks
    assert here.overflow == comes.overflow
    assert here.is_accepted == comes.is_accepted
    assert here.meter.decisive == comes.meter.decisive
    assert here.meter.close() == comes.meter.close()
