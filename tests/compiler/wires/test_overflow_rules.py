"""Wordings no rule was written from: invented, varied, in other words and languages.

`tests/golden/overflow_wordings.jsonl` holds them: a text, what it is, and its numbers.
"""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.error_words import Rule
from deuz_compiler.wires.overflow import (
    OverflowSignal,
    first_rule,
    plain_text,
    recognise_overflow,
)
from deuz_compiler.wires.overflow_rules import (
    OVERFLOW_CODES,
    TEXT_RULES,
    TWO_NUMBERS,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden/overflow_wordings.jsonl"


class Wording(msgspec.Struct, frozen=True):
    text: str
    kind: str = msgspec.field(name="is")
    limit: int | None = None
    requested: int | None = None


WORDINGS = tuple(
    msgspec.json.decode(line, type=Wording)
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
)
OVERFLOWS = [wording for wording in WORDINGS if wording.kind == "overflow"]
BYTES = [wording for wording in WORDINGS if wording.kind == "bytes"]
CHARACTERS = [wording for wording in WORDINGS if wording.kind == "characters"]
LOOK_ALIKES = [wording for wording in WORDINGS if wording.kind == "look_alike"]

WRAPPINGS = (
    '{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":null}}',
    '{"object":"error","message":%s,"type":"BadRequestError","code":400}',
    '{"error":%s}',
    '{"detail":%s}',
    '{"detail":[{"loc":["body"],"msg":%s,"type":"value_error"}]}',
    '[{"error":{"code":400,"message":%s,"status":"INVALID_ARGUMENT"}}]',
    '{"error":{"message":"Provider returned error","metadata":{"raw":%s}}}',
    '{"type":"error","error":{"type":"invalid_request_error","message":%s}}',
    '{"errors":[{"code":"invalid_input","message":%s}]}',
    "event: error\ndata: %s\n\n",
    "%s",
)
ORDERS_IN_NUMBERS = (
    "prompt is too long: {n} tokens > {m} maximum",
    "This model's maximum context length is {m} tokens. However, your messages"
    " resulted in {n} tokens.",
    "The input token count ({n}) exceeds the maximum number of tokens allowed ({m}).",
    "request ({n} tokens) exceeds the available context size ({m} tokens)",
    "Input length {n} exceeds the maximum length {m}.",
    "Prompt has {n:,} tokens, but the configured context size is {m:,} tokens",
    "exceeded model token limit: {m} (requested: {n})",
    "prompt is too long: {n:_} tokens > {m:_} maximum",
)


def recognise(text: str, wrapping: str = WRAPPINGS[0]) -> OverflowSignal | None:
    quoted = msgspec.json.encode(text).decode()
    return recognise_overflow(400, (wrapping % quoted).encode())


def name(wording: Wording) -> str:
    return wording.text[:60]


@pytest.mark.parametrize("wording", OVERFLOWS, ids=name)
def test_unseen_wording_is_recognised_with_its_numbers(wording: Wording) -> None:
    found = recognise(wording.text)

    assert found is not None
    assert found.limit_tokens == wording.limit
    assert found.requested_tokens == wording.requested


@pytest.mark.parametrize(
    "wording", [each for each in OVERFLOWS if "{" not in each.text], ids=name
)
def test_letter_case_changes_nothing(wording: Wording) -> None:
    assert recognise(wording.text.upper()) == recognise(wording.text)


@pytest.mark.parametrize("wording", BYTES, ids=name)
def test_refusal_for_bytes_is_told_from_one_for_tokens(wording: Wording) -> None:
    found = recognise(wording.text)

    assert found is not None
    assert (found.kind, found.cure) == ("request_bytes", "bytes")
    assert (found.limit_bytes, found.limit_tokens) == (wording.limit, None)


@pytest.mark.parametrize("wording", CHARACTERS, ids=name)
def test_counts_of_characters_are_not_taken_for_tokens(wording: Wording) -> None:
    found = recognise(wording.text)

    assert found is not None
    assert (found.kind, found.cure) == ("input_chars", "history")
    assert (found.limit_chars, found.limit_tokens) == (wording.limit, None)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("wording", OVERFLOWS[::9], ids=name)
def test_wording_is_found_in_every_wrapping(wording: Wording, wrapping: str) -> None:
    assert recognise(wording.text, wrapping) == recognise(wording.text)


@given(limit=st.integers(10_000, 2_000_000), excess=st.integers(1, 3_000_000))
@pytest.mark.parametrize("template", ORDERS_IN_NUMBERS)
def test_any_two_numbers_are_read_in_their_roles(
    template: str, limit: int, excess: int
) -> None:
    found = recognise(template.format(n=limit + excess, m=limit))

    assert found is not None
    assert found.limit_tokens == limit
    assert found.requested_tokens == limit + excess


def test_every_rule_has_a_name_of_its_own() -> None:
    names = [rule.name for rule in (*TEXT_RULES, OVERFLOW_CODES, TWO_NUMBERS)]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("rule", TEXT_RULES, ids=lambda rule: rule.name)
def test_every_rule_decides_at_least_one_known_wording(rule: Rule) -> None:
    decided = [first_rule(plain_text(wording.text)) for wording in WORDINGS]

    assert rule in decided


@pytest.mark.parametrize(
    "code",
    [
        "context_length_exceeded",
        "ContextWindowExceededError",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "context_exceeded",
        "prompt_too_long",
        "1261",
    ],
)
def test_code_alone_is_enough(code: str) -> None:
    body = msgspec.json.encode({"error": {"code": code, "message": "no"}})

    found = recognise_overflow(429, body)

    assert found is not None
    assert found.rule == "code"


@pytest.mark.parametrize(
    "code",
    [
        "string_above_max_length",
        "invalid_request_error",
        "2013",
        "5021",
        "1210",
        "context_management_invalid",
        "model_context_unavailable",
    ],
)
def test_other_code_says_nothing(code: str) -> None:
    body = msgspec.json.encode({"error": {"code": code, "message": "no"}})

    assert recognise_overflow(400, body) is None
