"""The answer side by the wire's name."""

import anthropic
import httpx2
import msgspec
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.meters import BodyMeter, StreamMeter
from deuz_compiler.wires.reply import (
    SilentMeter,
    error_body,
    error_event,
    open_meter,
)
from deuz_testing.streams import STREAMS, Stream

WIRES = ("anthropic", "openai_chat", "openai_responses")


@pytest.mark.parametrize("wire", WIRES)
def test_known_wire_is_metered_by_its_form(wire: str) -> None:
    assert isinstance(open_meter(wire, is_event_stream=True), StreamMeter)
    assert isinstance(open_meter(wire, is_event_stream=False), BodyMeter)


@pytest.mark.parametrize("wire", ["cohere", "", "ANTHROPIC"])
def test_unknown_wire_is_not_observed(wire: str) -> None:
    assert isinstance(open_meter(wire, is_event_stream=True), SilentMeter)


def test_silent_meter_holds_nothing_back() -> None:
    meter = SilentMeter()

    meter.feed(b'data: {"choices":[{"finish_reason":"stop"}]}\n\n')

    assert meter.decisive == "content"
    assert meter.close() == ReplyFacts()


EVENT_STREAMS = [stream for stream in STREAMS.values() if stream.is_event_stream]
SAID_BADLY = [
    b'{"message":"no room","code":400}',
    b'{"message" : "no room"}',
    b"no room",
]


@pytest.mark.parametrize("begin", [b"event: error", b"event:error"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("said", SAID_BADLY)
@pytest.mark.parametrize("stream", EVENT_STREAMS, ids=lambda stream: stream.wire)
def test_error_told_by_its_events_name_alone_is_kept(
    stream: Stream, said: bytes, line_end: bytes, begin: bytes
) -> None:
    failed = begin + b"\ndata: " + said + b"\n\n"
    chunks = [piece.replace(b"\n", line_end) for piece in (stream.begin, failed)]
    alone, behind = (open_meter(stream.wire, is_event_stream=True) for _ in range(2))

    alone.feed(chunks[1])
    for chunk in chunks:
        behind.feed(chunk)

    assert alone.decisive == "error"
    assert alone.close().error_body == behind.close().error_body == said


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@given(cuts=st.lists(st.integers(0, 600), max_size=6), again=st.integers(0, 30))
def test_a_stream_tells_the_same_however_it_is_cut(
    stream: Stream, cuts: list[int], again: int
) -> None:
    said = stream.begin + stream.end + stream.begin * again
    plain = open_meter(
        stream.wire, is_event_stream=stream.is_event_stream, keep_text=True
    )
    cut = open_meter(stream.wire, is_event_stream=stream.is_event_stream)

    # With the text wanted each event is read, and at once.
    plain.feed(said)
    ends = [*sorted(cuts), len(said)]
    for start, end in zip([0, *ends], ends, strict=False):
        cut.feed(said[start:end])

    assert cut.close() == msgspec.structs.replace(plain.close(), text=None)
    assert cut.decisive == plain.decisive


@pytest.mark.parametrize("wire", [*WIRES, "other"])
def test_error_names_the_sidecar_and_our_code(wire: str) -> None:
    body = error_body(wire, status=503, code="context_refused", message='no "room"')

    error = msgspec.json.decode(body)["error"]
    assert (error["type"], error["code"]) == ("sidecar_error", "context_refused")
    assert error["message"] == 'no "room"'


def test_unknown_wire_is_told_the_status_as_well() -> None:
    event = error_event("other", status=503, code="context_refused", message="no")

    data = event.removeprefix(b"event: error\ndata: ").removesuffix(b"\n\n")
    assert msgspec.json.decode(data)["error"]["status"] == 503


def answer(request: httpx2.Request) -> httpx2.Response:
    """Open a good stream and end it with an error of ours."""
    wire = {
        "/v1/messages": "anthropic",
        "/v1/chat/completions": "openai_chat",
        "/v1/responses": "openai_responses",
    }[request.url.path]
    event = error_event(wire, status=502, code="upstream_broken", message="went away")
    return httpx2.Response(
        200, headers={"content-type": "text/event-stream"}, content=event
    )


def test_anthropic_sdk_raises_on_our_event() -> None:
    client = anthropic.Anthropic(
        api_key="k",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )

    with pytest.raises(anthropic.APIStatusError, match="went away"):
        list(
            client.messages.create(
                model="m",
                max_tokens=1,
                stream=True,
                messages=[{"role": "user", "content": "x"}],
            )
        )


def open_openai() -> openai.OpenAI:
    return openai.OpenAI(
        api_key="k",
        base_url="http://upstream.invalid/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )


def test_openai_sdk_raises_on_our_chat_event() -> None:
    with pytest.raises(openai.APIError, match="went away"):
        list(
            open_openai().chat.completions.create(
                model="m", stream=True, messages=[{"role": "user", "content": "x"}]
            )
        )


def test_openai_sdk_raises_on_our_responses_event() -> None:
    with pytest.raises(openai.APIError, match="went away"):
        list(open_openai().responses.create(model="m", stream=True, input="x"))
