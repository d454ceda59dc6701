"""Texts about tokens and limits that must never cost anybody history."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.look_alike_rules import OTHER_LIMITS, QUOTA, QUOTA_CODES
from deuz_compiler.wires.overflow import OverflowSignal, recognise_overflow

GOLDEN = Path(__file__).resolve().parents[2] / "golden/overflow_wordings.jsonl"
LOOK_ALIKES = [
    str(wording["text"])
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    if (wording := msgspec.json.decode(line))["is"] == "look_alike"
]

ERROR = '{"error":{"message":%s,"type":"invalid_request_error","code":null}}'
WRAPPINGS = (
    '{"object":"error","message":%s,"type":"BadRequestError","code":400}',
    '{"error":%s}',
    '{"detail":[{"loc":["body"],"msg":%s,"type":"value_error"}]}',
    '[{"error":{"code":400,"message":%s,"status":"INVALID_ARGUMENT"}}]',
    '{"error":{"message":"Provider returned error","metadata":{"raw":%s}}}',
    "data: %s\n\n",
    "%s",
)


def recognise(text: str, wrapping: str = ERROR) -> OverflowSignal | None:
    quoted = msgspec.json.encode(text).decode()
    return recognise_overflow(400, (wrapping % quoted).encode())


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_look_alike_is_not_an_overflow(text: str) -> None:
    assert recognise(text) is None
    assert recognise(text.upper()) is None


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("text", LOOK_ALIKES[::5])
def test_look_alike_stays_one_in_every_wrapping(text: str, wrapping: str) -> None:
    assert recognise(text, wrapping) is None


@given(limit=st.integers(1_000, 500_000), used=st.integers(1_000, 500_000))
def test_no_numbers_make_a_quota_an_overflow(limit: int, used: int) -> None:
    text = f"Request too large on tokens per min (TPM): Limit {limit}, Requested {used}"

    assert recognise(text) is None


@pytest.mark.parametrize(
    "code", ["rate_limit_exceeded", "insufficient_quota", "ThrottlingException"]
)
def test_quota_code_beats_words_of_overflow(code: str) -> None:
    body = msgspec.json.encode({"error": {"code": code, "message": "prompt too long"}})

    assert QUOTA_CODES.kind is None
    assert recognise_overflow(429, body) is None


def test_look_alike_rules_never_claim_an_overflow() -> None:
    assert [rule.kind for rule in (QUOTA, *OTHER_LIMITS)] == [None] * 7


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_status_of_another_refusal_is_believed(status: int) -> None:
    body = b'{"error":{"message":"prompt is too long: 9000 tokens > 8000 maximum"}}'

    assert recognise_overflow(status, body) is None
