import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.answer import (
    MOST_RECORDS,
    Taken,
    checked_record,
    read_answer,
)
from deuz_testing.http_service import validator

QUERY = Query("rivers", "acme/anna", 20)
PLAIN: dict[str, Any] = {"id": "a", "text": "Rivers run to the sea."}
DIGEST = f"sha256:{hashlib.sha256(b'Rivers run to the sea.').hexdigest()}"


def taken(body: bytes) -> Taken:
    return read_answer(body, source="kb", kind="rag", query=QUERY)


def answer(*records: Any) -> bytes:
    return json.dumps({"records": records}).encode()


def reason_against(body: bytes) -> str:
    with pytest.raises(SourceFailed) as caught:
        taken(body)
    return caught.value.reason


def test_a_record_becomes_a_candidate_with_all_it_says() -> None:
    record = {
        **PLAIN,
        "score": 0.5,
        "revision": "7",
        "digest": DIGEST,
        "expires_at": 1893456000,
        "origin": "handbook",
        "priority": 3,
        "source_kinds": ["wiki"],
        "scope": "acme/anna",
        "unknown": {"passed": "over"},
    }

    (made,) = taken(answer(record)).candidates

    assert (made.key, made.kind, made.text) == ("kb/a", "rag", PLAIN["text"])
    assert (made.score, made.revision, made.digest) == (0.5, "7", DIGEST)
    assert (made.expires_at, made.priority) == (1893456000, 3)
    assert (made.origin, made.source_kinds) == ("handbook", ("wiki",))
    assert not made.is_mandatory


def test_what_is_not_said_comes_from_the_text_and_the_order() -> None:
    first, second = taken(answer(PLAIN, {**PLAIN, "id": "b"})).candidates

    assert (first.score, second.score) == (1.0, 0.5)
    assert first.revision == second.revision == DIGEST[7:19]


def test_nothing_found_is_no_failure() -> None:
    assert taken(answer()) == Taken(())


def test_a_record_from_outside_is_never_mandatory() -> None:
    claims = {"mandatory": True, "requirement": "mandatory"}

    (made,) = taken(answer({**PLAIN, **claims})).candidates

    assert made.requirement == "discretionary"


REFUSED: list[tuple[str, Any]] = [
    ("no id", {"text": "x"}),
    ("no text", {"id": "b"}),
    ("empty id", {**PLAIN, "id": ""}),
    ("long id", {**PLAIN, "id": "x" * 257}),
    ("id of another type", {**PLAIN, "id": 7}),
    ("line break in the id", {**PLAIN, "id": "a\nb"}),
    ("escape in the origin", {**PLAIN, "origin": "\x1b[31m"}),
    ("control in the revision", {**PLAIN, "revision": "1\x85"}),
    ("control in a source kind", {**PLAIN, "source_kinds": ["\x00"]}),
    ("empty text", {**PLAIN, "text": ""}),
    ("blank text", {**PLAIN, "text": " \n\t"}),
    ("long text", {**PLAIN, "text": "x" * 65_537}),
    ("text of another type", {**PLAIN, "text": ["x"]}),
    ("score over 1", {**PLAIN, "score": 17.3}),
    ("score below 0", {**PLAIN, "score": -0.1}),
    ("score as text", {**PLAIN, "score": "0.5"}),
    ("digest of another text", {**PLAIN, "digest": "sha256:" + "0" * 64}),
    ("digest of another form", {**PLAIN, "digest": "md5:1"}),
    ("expiry as text", {**PLAIN, "expires_at": "tomorrow"}),
    ("priority out of range", {**PLAIN, "priority": 1001}),
    ("another scope", {**PLAIN, "scope": "acme/ben"}),
    ("the whole tenant's scope", {**PLAIN, "scope": "acme"}),
    ("many source kinds", {**PLAIN, "source_kinds": ["x"] * 17}),
    ("a list", [1]),
    ("null", None),
    ("a number", 3),
]


@pytest.mark.parametrize("record", [r for _, r in REFUSED], ids=[n for n, _ in REFUSED])
def test_a_record_that_is_none_is_left_out_and_spoils_no_other(record: Any) -> None:
    read = taken(answer(PLAIN, record))

    assert [made.record_id for made in read.candidates] == ["a"]
    assert read.refused == 1


@pytest.mark.parametrize(
    "raw",
    [
        b'{"id": "b", "text": "x", "score": 1e999}',
        b'{"id": "b", "text": "\xff"}',
    ],
)
def test_a_record_that_no_encoder_writes_is_left_out(raw: bytes) -> None:
    read = taken(b'{"records": [{"id": "a", "text": "x"}, %b]}' % raw)

    assert [made.record_id for made in read.candidates] == ["a"]


def test_an_answer_of_which_no_record_is_one_is_a_failure() -> None:
    assert reason_against(answer({"id": 1}, {"text": "secret"})) == "no_record"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not_json"),
        (b"<html><body>502 Bad Gateway</body></html>", "not_json"),
        (b'{"records": [', "not_json"),
        (b'{"records": [{"id": "a", "text": "x", "score": NaN}]}', "not_json"),
        (b'{"records": [{"id": "a", "text": "\\ud800"}]}', "not_json"),
        (b'{"records": ' + b"[" * 100_000, "not_json"),
        (b"[" * 100_000 + b"]" * 100_000, "wrong_shape"),
        (b'{"d": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}", "not_json"),
        (b'{"records": {}}', "wrong_shape"),
        (b'{"results": []}', "wrong_shape"),
        (b"[]", "wrong_shape"),
        (b"null", "wrong_shape"),
        (b'"records"', "wrong_shape"),
    ],
)
def test_an_answer_that_is_none_is_a_failure_with_its_reason(
    body: bytes, reason: str
) -> None:
    assert reason_against(body) == reason


def test_a_failure_quotes_nothing_of_the_answer() -> None:
    with pytest.raises(SourceFailed) as caught:
        taken(answer({"id": "canary", "text": 1}))

    assert str(caught.value) == "source kb failed: no record that is well-formed"


def test_no_more_than_a_bounded_number_of_records_is_looked_at() -> None:
    many = [{"id": f"r{n}", "text": "x"} for n in range(MOST_RECORDS + 5)]

    assert len(taken(answer(*many)).candidates) == MOST_RECORDS


def test_of_two_records_with_one_id_both_are_handed_on_for_the_manifest() -> None:
    read = taken(answer(PLAIN, {**PLAIN, "text": "Another."}))

    assert [made.record_id for made in read.candidates] == ["a", "a"]


def test_control_characters_of_a_text_stay_for_the_block_to_escape() -> None:
    (made,) = taken(answer({**PLAIN, "text": "a\x1b[31mb\x00"})).candidates

    assert made.text == "a\x1b[31mb\x00"


@pytest.mark.parametrize("record", [r for _, r in REFUSED], ids=[n for n, _ in REFUSED])
def test_schema_and_reader_refuse_the_same(record: Any) -> None:
    # Whether digest and scope are right is not a question of shape.
    is_shapely = validator("record").is_valid(record)
    wrong = isinstance(record, dict) and {"digest", "scope"} & record.keys()

    assert not is_shapely or wrong


@given(
    st.fixed_dictionaries(
        {"id": st.text(max_size=4), "text": st.text(max_size=4)},
        optional={
            "score": st.none() | st.floats(-2, 2),
            "revision": st.text(max_size=3),
            "origin": st.text(max_size=3),
            "priority": st.integers(-1002, 1002),
            "expires_at": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "source_kinds": st.lists(st.text(max_size=2), max_size=3),
        },
    )
)
def test_what_the_schema_allows_the_reader_takes(record: dict[str, Any]) -> None:
    is_taken = True
    try:
        taken(answer(record))
    except SourceFailed:
        is_taken = False

    assert is_taken == validator("record").is_valid(record)


def test_members_that_make_no_record_are_none() -> None:
    assert checked_record(id=7, text="x") is None
    made = checked_record(id="7", text="x")
    assert made is not None
    assert made.id == "7"
