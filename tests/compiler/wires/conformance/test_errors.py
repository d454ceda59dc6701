"""Laws of errors: an overflow is recognised, nothing else is, and ours are ours."""

import msgspec

from deuz_compiler import (
    ReplyFacts,
    error_body,
    error_event,
    open_meter,
    recognise_overflow,
)
from deuz_testing.specimens.form import Specimens

CODE, MESSAGE = "upstream_broken", 'went "away"'


def streamed(s: Specimens, *chunks: bytes) -> tuple[ReplyFacts, str | None]:
    meter = open_meter(s.wire, is_event_stream=s.streams_events)
    for chunk in chunks:
        meter.feed(chunk)
    return meter.close(), meter.decisive


def test_an_overflow_is_recognised_and_so_is_its_cure(s: Specimens) -> None:
    for status, body in s.overflows:
        signal = recognise_overflow(status, body)

        assert signal is not None, body
        assert signal.cure in ("history", "either")


def test_other_refusals_are_no_overflow(s: Specimens) -> None:
    for status, body in s.others:
        assert recognise_overflow(status, body) is None, body


def test_an_overflow_behind_a_good_status_is_the_first_thing_decided(
    s: Specimens,
) -> None:
    for body in s.overflow_streams:
        facts, decisive = streamed(s, body)

        assert decisive == "error", body
        assert facts.error_body is not None
        assert recognise_overflow(200, facts.error_body, is_stream_event=True)


def test_another_failure_behind_a_good_status_is_no_overflow(s: Specimens) -> None:
    for body in s.other_streams:
        facts, decisive = streamed(s, body)

        assert decisive == "error", body
        assert facts.error_body is not None
        assert not recognise_overflow(200, facts.error_body, is_stream_event=True)


def test_a_whole_body_that_fails_is_an_error_under_any_status(s: Specimens) -> None:
    for _, body in (*s.overflows, *s.others):
        meter = open_meter(s.wire, is_event_stream=False)
        meter.feed(body)
        facts = meter.close()

        assert facts.error_body == body
        assert not facts.has_content


def test_an_error_of_ours_has_the_providers_shape_and_names_us(s: Specimens) -> None:
    body = error_body(s.wire, status=502, code=CODE, message=MESSAGE)

    told = s.own_error(msgspec.json.decode(body))
    assert told == ("sidecar_error", CODE, MESSAGE)
    assert recognise_overflow(502, body) is None


def test_an_error_of_ours_ends_a_stream_as_an_error(s: Specimens) -> None:
    event = error_event(s.wire, status=502, code=CODE, message=MESSAGE)

    facts, decisive = streamed(s, event)

    assert decisive == "error"
    assert facts.error_body is not None
    assert not recognise_overflow(200, facts.error_body, is_stream_event=True)
    assert s.own_error(msgspec.json.decode(facts.error_body))[1] == CODE
