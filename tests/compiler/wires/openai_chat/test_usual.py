"""A whole answer that is read at once tells what it would tell step by step."""

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.meters import BodyMeter
from deuz_compiler.wires.openai_chat.reply import REPLIES
from deuz_compiler.wires.openai_chat.usual import read_usual
from deuz_compiler.wires.usage import Usage

STEP_BY_STEP = replace(REPLIES, read_usual=None)

ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, "", "x", "ab", "abc", 0, 7, 1.5, True, [], {}, [{}], [1]]
)
CALLS = st.one_of(ODD, st.just([{"id": "t", "function": {"name": "f"}}]))
TEXTS = st.one_of(st.just("The answer."), st.just("The answer."), ODD, st.text())
COUNTS = st.one_of(st.integers(0, 300), st.integers(0, 300), ODD, st.just(-1))
USAGES = st.one_of(
    ODD,
    st.fixed_dictionaries(
        {},
        optional={
            "prompt_tokens": COUNTS,
            "completion_tokens": COUNTS,
            "total_tokens": COUNTS,
            "prompt_tokens_details": st.one_of(
                st.fixed_dictionaries({}, optional={"cached_tokens": COUNTS}), ODD
            ),
            "completion_tokens_details": st.one_of(
                st.fixed_dictionaries({}, optional={"reasoning_tokens": COUNTS}), ODD
            ),
            "reasoning_tokens": COUNTS,
            "cached_tokens": COUNTS,
            "timings": ODD,
        },
    ),
)
MESSAGES = st.one_of(
    st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": TEXTS},
        optional={
            "tool_calls": CALLS,
            "function_call": CALLS,
            "reasoning_content": TEXTS,
            "refusal": TEXTS,
            "audio": ODD,
        },
    ),
    ODD,
)
CHOICES = st.one_of(
    st.fixed_dictionaries(
        {"message": MESSAGES},
        optional={
            "index": st.just(0),
            "finish_reason": st.one_of(st.just("stop"), ODD),
            "delta": st.one_of(MESSAGES, st.none()),
            "text": TEXTS,
            "usage": USAGES,
        },
    ),
    ODD,
)
ANSWERS = st.fixed_dictionaries(
    {"choices": st.one_of(st.lists(CHOICES, min_size=1, max_size=2), ODD)},
    optional={
        "id": st.one_of(st.just("c1"), ODD),
        "object": st.one_of(st.just("chat.completion"), st.just("error"), ODD),
        "created": st.just(1),
        "model": st.one_of(st.just("gpt-x"), ODD),
        "usage": USAGES,
        "timings": st.one_of(st.none(), st.just({"prompt_n": 3, "cache_n": 4}), ODD),
        "x_groq": st.one_of(st.none(), st.just({"usage": {"prompt_tokens": 4}}), ODD),
        "error": ODD,
        "message": ODD,
        "detail": ODD,
    },
)


def told(body: bytes, *, is_usual: bool) -> tuple[ReplyFacts, str | None]:
    wire = REPLIES if is_usual else STEP_BY_STEP
    meter = BodyMeter(wire, keeps_text=False)
    meter.feed(body)
    return meter.close(), meter.decisive


@given(ANSWERS, st.sampled_from([b"", b" ", b"\xef\xbb\xbf", b"data: "]))
@example({"choices": [{"message": {"content": "", "tool_calls": [{}]}}]}, b"")
@example({"choices": [{"message": {"content": "longer", "tool_calls": [{}]}}]}, b"")
@example({"choices": [{"message": {"content": "longer"}}], "usage": {"cost": 1}}, b"")
def test_what_is_read_at_once_is_what_is_read_step_by_step(
    answer: dict[str, object], before: bytes
) -> None:
    body = before + msgspec.json.encode(answer)

    assert told(body, is_usual=True) == told(body, is_usual=False)


@given(st.integers(0, 400))
def test_a_body_that_is_cut_is_read_step_by_step(at: int) -> None:
    body = USUAL[:at]

    assert told(body, is_usual=True) == told(body, is_usual=False)


USUAL = (
    b'{"id":"c2","object":"chat.completion","created":1,"model":"gpt-x","choices":'
    b'[{"index":0,"message":{"role":"assistant","content":"An answer.","refusal":null},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}'
)


def test_a_usual_answer_is_read_at_once() -> None:
    assert read_usual(USUAL) == ReplyFacts(
        usage=Usage(input_uncached=5, cache_read=4, output=2),
        finish_reason="stop",
        response_id="c2",
        model="gpt-x",
        has_content=True,
        is_complete=True,
    )


def test_a_call_of_a_tool_is_read_at_once() -> None:
    body = USUAL.replace(b'"An answer."', b'null,"tool_calls":[{"id":"t"}]')

    facts = read_usual(body)

    assert facts is not None
    assert (facts.had_tool_call, facts.has_content) == (True, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"An answer."', b'""'),
        (b'"refusal":null', b'"function_call":{"name":"f"}'),
        (b'"object":"chat.completion"', b'"object":"error"'),
        (b'"created":1', b'"timings":{"cache_n":3}'),
        (b'"created":1', b'"error":{"message":"no"}'),
        (b'"prompt_tokens":9,"completion_tokens":2', b'"total_tokens":2'),
        (b'"finish_reason":"stop"}', b'"finish_reason":"stop"},{"message":{}}'),
    ],
)
def test_what_is_not_usual_is_left(old: bytes, new: bytes) -> None:
    assert read_usual(USUAL.replace(old, new)) is None
