"""The meters' own promises: bounded, silent about faults, blind to framing tricks."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires import meters
from deuz_compiler.wires.metering import MAX_TEXT_CHARS, ReplyFacts, ReplyMeter
from deuz_compiler.wires.meters import BodyMeter, StreamMeter
from deuz_compiler.wires.openai_chat.reply import REPLIES
from deuz_compiler.wires.reply import open_meter
from deuz_compiler.wires.sse import MAX_EVENT_BYTES

WIRES = ("anthropic", "openai_chat", "openai_responses")
FRAMED = ("gemini", "ollama", "bedrock_converse", "bedrock_invoke")
DELTA = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
FINISH = (
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
)


def meter_all(meter: ReplyMeter, *chunks: bytes) -> ReplyFacts:
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close()


@pytest.mark.parametrize("wire", [*WIRES, *FRAMED])
@pytest.mark.parametrize("is_event_stream", [True, False])
@given(chunks=st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_make_a_meter_raise(
    wire: str, is_event_stream: bool, chunks: list[bytes]
) -> None:
    meter = open_meter(wire, is_event_stream=is_event_stream, keep_text=True)

    assert isinstance(meter_all(meter, *chunks), ReplyFacts)


@pytest.mark.parametrize("is_event_stream", [True, False])
@pytest.mark.parametrize(
    "said",
    [DELTA + FINISH, b'{"choices":[],"usage":{"prompt_tokens":3}}', b"nonsense", b"{["],
)
@pytest.mark.parametrize("wire", [*WIRES, *FRAMED])
def test_a_meter_that_is_closed_again_tells_the_same(
    wire: str, said: bytes, is_event_stream: bool
) -> None:
    meter = open_meter(wire, is_event_stream=is_event_stream)

    facts = meter_all(meter, said)

    assert meter.close() == facts


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, '{"x":' * 100_000, '"\ud800"', "nul", "\x00"],
)
def test_hostile_json_is_a_fault_and_no_more(wire: str, value: str) -> None:
    hostile = value.encode("utf-8", errors="surrogatepass")

    streamed = meter_all(
        open_meter(wire, is_event_stream=True), b"data: " + hostile + b"\n\n"
    )
    whole = meter_all(open_meter(wire, is_event_stream=False), hostile)

    assert (streamed.faults, whole.faults) == (1, 1)
    assert (streamed.usage, whole.usage) == (None, None)


def test_long_line_leaves_memory_flat_and_the_usage_is_still_read() -> None:
    meter = StreamMeter(REPLIES, keeps_text=False)
    meter.feed(DELTA)
    piece = b"x" * 65_536

    tracemalloc.start()
    for _ in range(160):
        meter.feed(piece)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    facts = meter_all(meter, b"\n\n", FINISH)

    assert peak_bytes < 3 * MAX_EVENT_BYTES
    assert facts.faults == 1
    assert facts.usage is not None
    assert facts.usage.output == 1


def test_body_over_the_bound_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meters, "MAX_BODY_BYTES", 100)
    meter = BodyMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, b'{"usage":{"prompt_tokens":3', b" " * 100, b"}}")

    assert facts == ReplyFacts(faults=1)


def test_text_is_kept_up_to_a_bound() -> None:
    meter = StreamMeter(REPLIES, keeps_text=True)
    half = msgspec.json.encode("x" * (MAX_TEXT_CHARS // 2 + 1))
    delta = b'data: {"choices":[{"delta":{"content":' + half + b"}}]}\n\n"

    facts = meter_all(meter, delta, delta, delta)

    assert facts.text is not None
    assert len(facts.text) == MAX_TEXT_CHARS


def test_chunks_of_content_behind_the_first_are_not_decoded() -> None:
    """A broken delta proves it: had it been decoded, it would be a fault."""
    broken = DELTA.replace(b'"a"', b"@")
    meter = StreamMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, DELTA, *[broken] * 100, *[DELTA] * 100, FINISH)

    assert (facts.faults, facts.finish_reason) == (0, "stop")


def test_what_is_held_behind_the_first_content_is_bounded() -> None:
    meter = StreamMeter(REPLIES, keeps_text=False)
    meter.feed(DELTA)

    tracemalloc.start()
    try:
        for _ in range(10_000):
            meter.feed(DELTA)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held_bytes < 16_384


def test_content_amid_a_burst_is_not_decoded() -> None:
    """Proved by broken ones, as above: all but those next to what tells something."""
    broken = DELTA.replace(b'"a"', b"@")
    burst = DELTA * 4 + broken * 8 + DELTA * 8 + FINISH
    meter = StreamMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, burst[:-100], burst[-100:])

    assert (facts.faults, facts.finish_reason) == (0, "stop")


EVENTS = (
    DELTA,
    FINISH,
    b": ping\n\n",
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    DELTA.replace(b"null", b'""'),
    DELTA.replace(b"\n", b"\r\n").replace(b":null", b": null"),
    b'data: {"choices":[],"usage":{"prompt_tokens":4}}\n\n',
    b'data: {"error":{"message":"no"}}\n\n',
    b"data: [DONE]\n\n",
)


@given(events=st.lists(st.sampled_from(EVENTS), max_size=40), most=st.integers(0, 400))
def test_what_is_read_later_tells_what_it_tells_at_once(
    events: list[bytes], most: int
) -> None:
    later, at_once = (StreamMeter(REPLIES, keeps_text=False) for _ in range(2))
    decisive: list[list[str | None]] = [[], []]

    for bound, meter, seen in zip((most, -1), (later, at_once), decisive, strict=True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(meters, "_MOST_LATE_BYTES", bound)
            for event in events:
                meter.feed(event)
                seen.append(meter.decisive)

    assert decisive[0] == decisive[1]
    assert later.close() == at_once.close()


@given(events=st.lists(st.sampled_from(EVENTS), max_size=40), cut=st.integers(0, 400))
def test_a_burst_tells_what_its_events_tell_one_by_one(
    events: list[bytes], cut: int
) -> None:
    burst = b"".join(events)
    together = StreamMeter(REPLIES, keeps_text=False)
    alone = StreamMeter(REPLIES, keeps_text=False)

    facts = meter_all(together, burst[:cut], burst[cut:])

    assert facts == meter_all(alone, *events)
    assert together.decisive == alone.decisive


def test_rest_of_an_event_is_not_taken_for_whole_events() -> None:
    meter = StreamMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, DELTA, FINISH[:40], FINISH[40:])

    assert facts.finish_reason == "stop"


def test_plain_error_under_an_event_stream_label_is_read() -> None:
    body = b'{"error":{"message":"no"}}'
    meter = StreamMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, body[:9], body[9:])

    assert facts.error_body == body
    assert meter.decisive == "error"


def test_events_under_a_json_label_are_read() -> None:
    meter = BodyMeter(REPLIES, keeps_text=False)

    facts = meter_all(meter, b": hi\n\n" + DELTA, FINISH)

    assert (facts.finish_reason, meter.decisive) == ("stop", "content")


def test_body_decides_when_it_is_whole() -> None:
    meter = BodyMeter(REPLIES, keeps_text=False)

    meter.feed(b'\xef\xbb\xbf{"choices":[{"message":{"content":"a"}}]}')
    before = meter.decisive
    meter.close()

    assert (before, meter.decisive) == (None, "content")


def test_empty_body_tells_nothing() -> None:
    assert meter_all(BodyMeter(REPLIES, keeps_text=False)) == ReplyFacts()
