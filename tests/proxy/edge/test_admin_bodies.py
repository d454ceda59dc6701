from datetime import datetime

import pytest
from pydantic import ValidationError

from deuz_proxy.edge.admin_bodies import (
    NamedRecordBody,
    RecordBody,
    faults_of,
    shown,
)
from deuz_proxy.memory.records import Draft, Record


def test_a_body_becomes_the_draft_it_says() -> None:
    body = RecordBody.model_validate_json(
        '{"text": "x", "mandatory": true, "expires_at": 7, "source_kinds": ["a"]}'
    )

    assert body.draft("r") == Draft("r", "x", True, 7.0, "", ("a",))


def test_a_time_with_its_zone_becomes_unix_seconds() -> None:
    moment = "2030-05-01T12:00:00+02:00"
    body = RecordBody.model_validate_json(f'{{"text": "x", "expires_at": "{moment}"}}')

    assert body.draft("r").expires_at == datetime.fromisoformat(moment).timestamp()


@pytest.mark.parametrize("moment", ['"2030-05-01T12:00:00"', '"soon"', "-1", "1e13"])
def test_what_is_no_moment_is_one_fault_at_one_place(moment: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RecordBody.model_validate_json(f'{{"text": "x", "expires_at": {moment}}}')

    (fault,) = faults_of(caught.value, {}, where="body")
    assert fault.where == "body.expires_at"


def test_every_fault_is_told_and_no_value() -> None:
    with pytest.raises(ValidationError) as caught:
        NamedRecordBody.model_validate_json('{"id": "", "text": 5, "canary": "canary"}')

    faults = faults_of(caught.value, {}, where="line 1")
    assert [fault.where for fault in faults] == [
        "line 1.text",
        "line 1.id",
        "line 1.canary",
    ]
    assert not any("canary" in fault.what for fault in faults)


def test_a_record_is_shown_with_all_that_is_kept_of_it() -> None:
    record = Record(Draft("r", "x", True, 7.0, "crm", ("a",)), 3, "sha256:0")

    answer = shown(record, 0.5)

    assert answer.model_dump() == {
        "id": "r",
        "revision": 3,
        "digest": "sha256:0",
        "text": "x",
        "mandatory": True,
        "expires_at": 7.0,
        "origin": "crm",
        "source_kinds": ("a",),
        "score": 0.5,
    }
