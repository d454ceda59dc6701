import json

import pytest

from deuz_proxy.edge.admin_answers import Refused, check, invalid, refuse_with, tell
from deuz_proxy.edge.admin_bodies import Fault, ForgottenBody, Kept, RecordBody


def test_an_answer_leaves_out_what_is_not_known() -> None:
    answer = tell(Kept(id="a", revision=1, digest="d"), status=201)

    assert answer.status == 201
    assert json.loads(answer.body) == {"id": "a", "revision": 1, "digest": "d"}


def test_a_refusal_tells_its_faults_and_how_many_more_there_are() -> None:
    faults = [Fault(where=f"line {number}", what="is bad") for number in range(130)]

    answer = refuse_with(Refused(400, "invalid_request", faults))

    error = json.loads(answer.body)["error"]
    assert len(error["faults"]) == 100
    assert error["message"].startswith("line 0: is bad; line 1: is bad")
    assert error["message"].endswith("and 30 more")


def test_a_model_is_checked_from_json_alone() -> None:
    assert check(RecordBody, b'{"text": "x"}', where="body").text == "x"
    with pytest.raises(Refused) as caught:
        check(ForgottenBody, b"no", where="line 3")

    assert [fault.where for fault in caught.value.faults] == ["line 3"]


def test_one_fault_is_a_bad_request() -> None:
    refused = invalid("id", "is none")

    assert (refused.status, refused.code, len(refused.faults)) == (
        400,
        "invalid_request",
        1,
    )
