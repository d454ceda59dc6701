"""Where in an answer the server itself speaks, and where it only repeats."""

import msgspec
import pytest

from deuz_compiler.wires.error_report import (
    MAX_ALL_CHARS,
    MAX_TEXTS,
    decode_value,
    is_error,
    read_report,
    stop_reason,
)

SAID = "prompt is too long: 9000 tokens > 8000 maximum"
QUOTED = msgspec.json.encode(SAID).decode()


def texts_of(body: str) -> tuple[str, ...]:
    return read_report(body.encode(), {}).texts


@pytest.mark.parametrize(
    "body",
    [
        SAID,
        QUOTED,
        f'{{"error":{{"message":{QUOTED}}}}}',
        f'{{"error":{QUOTED}}}',
        f'{{"message":{QUOTED},"__type":"ValidationException"}}',
        f'{{"Message":{QUOTED}}}',
        f'{{"detail":{QUOTED}}}',
        f'{{"details":{QUOTED}}}',
        f'{{"detail":[{{"loc":["body"],"msg":{QUOTED}}}]}}',
        f'{{"errors":[{{"message":{QUOTED}}}]}}',
        f'[{{"error":{{"message":{QUOTED}}}}}]',
        f'{{"error":{{"metadata":{{"raw":{QUOTED}}}}}}}',
        f'{{"error":{{"metadata":{{"raw":{{"error":{{"message":{QUOTED}}}}}}}}}}}',
        f'{{"response":{{"error":{{"message":{QUOTED}}}}}}}',
        msgspec.json.encode({"detail": f'{{"error":{{"message":{QUOTED}}}}}'}).decode(),
        msgspec.json.encode({"error": f'[{{"message":{QUOTED}}}]'}).decode(),
        f'event: error\ndata: {{"error":{{"message":{QUOTED}}}}}\n\n',
        f'\ufeff {{"error":{{"message":{QUOTED}}}}} \n',
    ],
)
def test_server_is_heard_at_every_place_of_an_error(body: str) -> None:
    assert texts_of(body) == (SAID,)


def test_json_behind_a_prefix_is_read_and_what_is_around_it_is_kept() -> None:
    inner = f'{{"error":{{"message":{QUOTED},"code":"context_length_exceeded"}}}}'
    body = msgspec.json.encode({"message": f"gateway: {inner} (request 7)"})

    report = read_report(body, {})

    assert report.texts == ("gateway: ", SAID, " (request 7)")
    assert report.codes == ("context_length_exceeded",)


def test_python_repr_of_bytes_keeps_its_words() -> None:
    said = f'XException - b\'{{"error":{{"message":{QUOTED}}}}}\''

    assert SAID in " ".join(texts_of(msgspec.json.encode({"message": said}).decode()))


def test_page_is_read_as_text() -> None:
    page = "<html><h1 class='x'>413</h1><p>Request Entity Too Large</p></html>"

    assert "Request Entity Too Large" in texts_of(page)[0]
    assert "<" not in texts_of(page)[0]


@pytest.mark.parametrize(
    "body",
    [
        f'{{"choices":[{{"message":{{"content":{QUOTED}}}}}]}}',
        f'{{"detail":[{{"loc":["body"],"input":{QUOTED}}}]}}',
        f'{{"response":{{"instructions":{QUOTED},"metadata":{{"error":{QUOTED}}}}}}}',
        f'{{"error":{{"param":{QUOTED},"request":{{"message":{QUOTED}}}}}}}',
        f'{{"content":[{{"text":{QUOTED}}}],"input":{QUOTED}}}',
    ],
)
def test_model_output_and_repeated_requests_are_not_heard(body: str) -> None:
    assert texts_of(body) == ()


def test_codes_come_in_one_spelling() -> None:
    body = (
        b'{"error":{"code":"ContextWindowExceededError","type":"invalid-request"},'
        b'"status":"INVALID_ARGUMENT","error_code":1261,"code":true}'
    )

    report = read_report(body, {"X-Amzn-ErrorType": "ThrottlingException:http://x"})

    assert set(report.codes) == {
        "throttling_exception",
        "context_window_exceeded_error",
        "invalid_request",
        "invalid_argument",
        "1261",
    }


def test_structured_counts_are_read() -> None:
    body = b'{"error":{"message":"m","n_prompt_tokens":14429,"n_ctx":8192}}'

    report = read_report(body, {})

    assert (report.limit_tokens, report.requested_tokens) == (8192, 14429)


@pytest.mark.parametrize("value", ["-1", "0", "true", '"9"', "null", "1.5"])
def test_counts_that_are_none_are_not_read(value: str) -> None:
    report = read_report(f'{{"error":{{"n_ctx":{value}}}}}'.encode(), {})

    assert report.limit_tokens is None


@pytest.mark.parametrize("factor", [1, 10, 100])
def test_work_does_not_grow_with_the_body(factor: int) -> None:
    long = "prompt and max_tokens " * 400 * factor
    many = [{"message": long, "detail": "short"}] * 20
    body = msgspec.json.encode({"error": {"message": long, "errors": many}})

    report = read_report(body, {})

    assert len(report.texts) <= MAX_TEXTS
    assert sum(map(len, report.texts)) <= MAX_ALL_CHARS


def test_depth_is_bounded() -> None:
    body = '{"error":' * 200 + f'{{"message":{QUOTED}}}' + "}" * 200

    assert texts_of(body) == ()


def test_nesting_that_json_cannot_hold_is_one_text() -> None:
    assert len(texts_of("[" * 50_000)[0]) <= MAX_ALL_CHARS


@pytest.mark.parametrize(
    ("value", "is_event", "expected"),
    [
        ({"error": {"message": "m"}}, False, True),
        ({"error": "m"}, False, True),
        ([{"error": {}}, 1], False, False),
        ([{"error": "m"}], False, True),
        ({"type": "error"}, False, True),
        ({"type": "response.failed"}, False, True),
        ({"object": "error", "message": "m"}, False, True),
        ({"errors": [1]}, False, True),
        ({"error": None, "object": "response"}, False, False),
        ({"message": {"role": "assistant"}, "done": True}, True, False),
        ({"message": "m"}, False, False),
        ({"message": "m"}, True, True),
        ([], True, False),
        ("text", True, False),
        (None, False, False),
    ],
)
def test_error_under_a_good_status_is_known_by_its_shape(
    value: object, is_event: bool, expected: bool
) -> None:
    assert is_error(value, is_stream_event=is_event) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stop_reason": "end_turn"}, "end_turn"),
        ({"stopReason": "max_tokens"}, "max_tokens"),
        ({"delta": {"stop_reason": "x"}}, "x"),
        ({"choices": [{"finish_reason": "stop"}]}, "stop"),
        ({"choices": [], "finish_reason": None}, None),
        ({"choices": [1], "delta": "x"}, None),
        ([], None),
    ],
)
def test_stop_reason_is_found_on_any_wire(value: object, expected: object) -> None:
    assert stop_reason(value) == expected


def test_what_is_no_json_has_no_value() -> None:
    assert decode_value(b"<html>") is None
    assert decode_value(b'\xef\xbb\xbf{"a":1}') == {"a": 1}
