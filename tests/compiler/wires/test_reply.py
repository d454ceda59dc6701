"""The answer side by the wire's name."""

import anthropic
import httpx2
import msgspec
import openai
import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.meters import BodyMeter, StreamMeter
from deuz_compiler.wires.reply import (
    SilentMeter,
    error_body,
    error_event,
    open_meter,
)

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
