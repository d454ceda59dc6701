"""Overflow in all its forms: errors, stops, silence; and the public corpus of them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.overflow import (
    OverflowSignal,
    plain_text,
    recognise_blank,
    recognise_finish,
    recognise_overflow,
    recognise_silent,
)
from deuz_compiler.wires.reply import open_meter
from deuz_compiler.wires.usage import Usage, merge_counts, read_usage

WIRES = {"openai-chat": "openai_chat", "openai-responses": "openai_responses"}


def body_of(case: dict[str, Any]) -> bytes:
    body = case["body"]
    return body.encode() if isinstance(body, str) else msgspec.json.encode(body)


def facts_of(case: dict[str, Any]) -> ReplyFacts:
    """Meter the answer; wires without a meter of their own are read by shape."""
    body = body_of(case)
    wire = WIRES.get(case["wire"], case["wire"])
    meter = open_meter(wire, is_event_stream=case["stream"])
    meter.feed(b"data: " + body + b"\n\n" if case["stream"] else body)
    facts = meter.close()
    if facts.usage is None and isinstance(case["body"], dict):
        usage = read_usage(merge_counts({}, case["body"]))
        return msgspec.structs.replace(facts, usage=usage, has_content=True)
    return facts


def recognise(case: dict[str, Any]) -> OverflowSignal | None:
    """Ask as the line does: the error, the stop, then silence against what was sent."""
    expect = case["expect"]
    status = case["http_status"]
    is_silent = expect.get("subtype") == "silent"
    estimated_tokens = 20_000 if is_silent else None
    window_tokens = expect["limit_tokens"] if is_silent else None
    if not body_of(case):
        return recognise_blank(status, window_tokens=9_000, estimated_tokens=8_000)
    found = recognise_overflow(
        status,
        body_of(case),
        headers=case.get("headers", {}),
        is_stream_event=case["stream"],
    )
    if found is not None or status >= 400:
        return found
    facts = facts_of(case)
    return recognise_finish(facts) or recognise_silent(
        facts.usage,
        facts.finish_reason,
        facts.has_content,
        window_tokens=window_tokens,
        estimated_tokens=estimated_tokens,
    )


@pytest.fixture(scope="module")
def corpus(reference: Path) -> list[dict[str, Any]]:
    lines = (reference / "corpus/overflow.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


def test_corpus_is_classified_without_a_miss_or_a_false_alarm(
    corpus: list[dict[str, Any]],
) -> None:
    wrong = [
        case["id"]
        for case in corpus
        if (recognise(case) is not None) != case["expect"]["overflow"]
    ]

    assert wrong == []


def test_numbers_of_the_corpus_are_read(corpus: list[dict[str, Any]]) -> None:
    wrong = [
        (case["id"], found.limit_tokens, found.requested_tokens)
        for case in corpus
        if case["expect"]["overflow"]
        and (found := recognise(case)) is not None
        and (found.limit_tokens, found.requested_tokens)
        != (case["expect"]["limit_tokens"], case["expect"]["requested_tokens"])
    ]

    assert wrong == []


def test_kinds_of_the_corpus_are_told_apart(corpus: list[dict[str, Any]]) -> None:
    wrong = [
        (case["id"], found.kind)
        for case in corpus
        if case["expect"]["overflow"]
        and (found := recognise(case)) is not None
        and found.kind != case["expect"]["kind"]
    ]

    assert wrong == []


def wrap(case: dict[str, Any], wrapping: str) -> bytes:
    inner = body_of(case).decode()
    page = f"<html><h1>502 Bad Gateway</h1><pre>{inner}</pre></html>"
    bodies: dict[str, object] = {
        "detail": {"detail": inner},
        "raw": {"error": {"message": "Provider error", "metadata": {"raw": inner}}},
        "gateway": {"error": {"message": f"XException - {inner}. Group=x\nNone"}},
        "bytes": {"error": {"message": f"XException - {inner.encode()!r}. Group=x"}},
    }
    body = bodies.get(wrapping)
    return page.encode() if body is None else msgspec.json.encode(body)


@pytest.mark.parametrize("wrapping", ["detail", "raw", "gateway", "bytes", "page"])
def test_corpus_is_classified_in_any_wrapping(
    corpus: list[dict[str, Any]], wrapping: str
) -> None:
    errors = [case for case in corpus if case["http_status"] >= 400 and case["body"]]

    wrong = [
        case["id"]
        for case in errors
        if (
            recognise_overflow(
                case["http_status"],
                wrap(case, wrapping),
                headers=case.get("headers", {}),
            )
            is not None
        )
        != case["expect"]["overflow"]
    ]

    assert wrong == []


def chat_error(message: str, **members: object) -> bytes:
    return msgspec.json.encode({"error": {"message": message, **members}})


def test_structured_counts_beat_the_words() -> None:
    body = chat_error(
        "request (9 tokens) exceeds the available context size (8 tokens)",
        type="exceed_context_size_error",
        n_prompt_tokens=14_429,
        n_ctx=8_192,
    )

    found = recognise_overflow(400, body)

    assert found is not None
    assert (found.rule, found.limit_tokens) == ("code", 8_192)
    assert found.requested_tokens == 14_429


def test_code_is_enough_where_the_words_are_new() -> None:
    found = recognise_overflow(400, chat_error("nope", code="context_length_exceeded"))

    assert found == OverflowSignal(kind="input", cure="history", rule="code")


def test_code_without_a_text_is_enough() -> None:
    assert recognise_overflow(400, b'{"error":{"code":"context_length_exceeded"}}')


def test_quota_is_believed_wherever_it_is_said() -> None:
    body = (
        b'{"error":{"message":"prompt is too long","metadata":'
        b'{"raw":"Rate limit reached"}}}'
    )

    assert recognise_overflow(400, body) is None


def test_vague_words_under_the_status_of_a_quota_say_nothing() -> None:
    body = chat_error("token count 70123 exceeds the limit of 65536")

    assert recognise_overflow(400, body) is not None
    assert recognise_overflow(429, body) is None


@pytest.mark.parametrize(
    ("output", "cure"), [(20_000, "either"), (199_990, "max_tokens"), (0, "history")]
)
def test_cure_follows_from_the_parts(output: int, cure: str) -> None:
    said = (
        "This model's maximum context length is 200000 tokens. However, you requested"
        f" {output + 190_000} tokens (190000 in the messages, {output} in the"
        " completion)"
    )

    found = recognise_overflow(400, chat_error(said))

    assert found is not None
    assert found.cure == cure


def test_excess_alone_is_kept_as_excess() -> None:
    found = recognise_overflow(400, chat_error("prompt too long; exceeded by 7 tokens"))

    assert found is not None
    assert (found.limit_tokens, found.excess_tokens) == (None, 7)


@pytest.mark.parametrize("status", [200, 400])
def test_model_output_with_words_of_overflow_is_no_overflow(status: int) -> None:
    said = "prompt is too long: 9000 tokens > 8000 maximum"
    body = msgspec.json.encode({"choices": [{"message": {"content": said}}]})

    assert recognise_overflow(status, body) is None


def test_stop_on_a_full_window_is_told_on_any_wire() -> None:
    body = b'{"output":{},"stopReason":"model_context_window_exceeded"}'

    found = recognise_overflow(200, body)

    assert found is not None
    assert (found.form, found.cure) == ("finish", "either")


@pytest.mark.parametrize(
    "reason", [None, "stop", "length", "max_tokens", "error", "context_cached"]
)
def test_other_stops_are_no_overflow(reason: str | None) -> None:
    assert recognise_finish(ReplyFacts(finish_reason=reason)) is None


@pytest.mark.parametrize(
    ("status", "window", "estimated", "is_overflow"),
    [
        (400, 10_000, 9_000, True),
        (413, 10_000, 9_000, True),
        (400, 10_000, 7_000, False),
        (400, None, 9_000, False),
        (500, 10_000, 9_000, False),
    ],
)
def test_refusal_without_a_word_needs_a_size_that_explains_it(
    status: int, window: int | None, estimated: int | None, is_overflow: bool
) -> None:
    found = recognise_blank(status, window_tokens=window, estimated_tokens=estimated)

    assert (found is not None) is is_overflow


@pytest.mark.parametrize(
    ("counts", "finish", "has_content", "sizes", "rule"),
    [
        # Input alone is over the window, and nobody complained.
        ((201_000, 50), "stop", True, (200_000, None), "usage_over_window"),
        # Cut to fit: the window is full to the brim, the answer short or empty.
        ((1_048_570, 0), "length", False, (1_048_576, None), "window_filled"),
        ((32_767, 1), "length", True, (32_768, None), "window_filled"),
        ((199_990, 3), "length", True, (200_000, None), "window_filled"),
        ((200_000, 0), "stop", False, (200_000, None), "window_filled"),
        # Far fewer tokens than were sent.
        ((2_051, 40), "stop", True, (None, 40_000), "usage_below_estimate"),
        ((1, 1), "stop", False, (None, 5_000), "usage_below_estimate"),
        # Ordinary answers.
        ((150_000, 10), "stop", True, (200_000, 160_000), None),
        ((271_900, 128_000), "max_output_tokens", True, (400_000, None), None),
        ((190_000, 1), "length", True, (200_000, None), None),
        ((199_990, 8), "stop", True, (200_000, None), None),
        ((30_000, 40), "stop", True, (None, 40_000), None),
        ((100, 40), "stop", True, (None, 1_900), None),
        ((410, 0), "length", False, (None, None), None),
    ],
)
def test_silence_is_measured(
    counts: tuple[int, int],
    finish: str,
    has_content: bool,
    sizes: tuple[int | None, int | None],
    rule: str | None,
) -> None:
    found = recognise_silent(
        Usage(input_uncached=counts[0], output=counts[1]),
        finish,
        has_content,
        window_tokens=sizes[0],
        estimated_tokens=sizes[1],
    )

    assert (found.rule if found else None) == rule
    assert found is None or found.form == "silent"


@pytest.mark.parametrize(
    "usage", [None, Usage(output=3), Usage(input_uncached=9, is_anomalous=True)]
)
def test_usage_that_says_nothing_of_the_input_raises_no_suspicion(
    usage: Usage | None,
) -> None:
    found = recognise_silent(
        usage, "stop", has_content=False, window_tokens=8, estimated_tokens=9_000
    )

    assert found is None


def test_cached_input_is_not_taken_for_missing_input() -> None:
    usage = Usage(input_uncached=5, cache_read=39_000, output=3)

    found = recognise_silent(
        usage, "stop", has_content=True, window_tokens=None, estimated_tokens=40_000
    )

    assert found is None


def test_large_body_is_recognised_by_its_first_words() -> None:
    said = "prompt is too long: 9000 tokens > 8000 maximum. " + "x" * 100_000

    found = recognise_overflow(400, chat_error(said))

    assert found is not None
    assert found.requested_tokens == 9_000


def test_plain_text_is_what_the_rules_are_written_for() -> None:
    said = "This model\u2019s `max_tokens`\n is 1,048,576 (see https://x.example/rate-limits)"

    assert plain_text(said) == "this models max_tokens is 1048576 (see )"


def test_offending_value_is_not_the_servers_word() -> None:
    assert "long" not in plain_text("Invalid value: 'prompt is too long'. Use another")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("[1,512]", "[1, 512]"),
        ("1_000", "1000"),
        ("1\u00a0000", "1000"),
        ("1,00", "1,00"),
    ],
)
def test_separators_leave_numbers_and_ranges_whole(text: str, plain: str) -> None:
    assert plain_text(text) == plain
