import json
import logging

import pytest

from deuz_proxy.edge.answers import answer_error, as_sidecar_error
from deuz_proxy.errors import SidecarError, UpstreamUnreachable
from deuz_testing.otlp import text_of
from deuz_testing.scripted import GivenClient


@pytest.mark.parametrize("api", ["anthropic", "openai_chat", "openai_responses", ""])
async def test_a_fault_has_the_providers_shape_and_names_the_sidecar(api: str) -> None:
    client = GivenClient()

    length = answer_error(client, api, UpstreamUnreachable(upstream="u"))

    assert (client.status, client.reason) == (502, "Bad Gateway")
    assert dict(client.headers) == {
        b"Content-Type": b"application/json",
        b"Content-Length": str(length).encode(),
    }
    assert len(client.body) == length
    assert client.is_finished
    error = json.loads(client.body)["error"]
    assert (error["type"], error["code"]) == ("sidecar_error", "upstream_unreachable")


async def test_an_answer_under_way_is_broken_instead() -> None:
    client = GivenClient(status=200)

    length = answer_error(client, "anthropic", SidecarError("no"))

    assert length == 0
    assert client.is_aborted
    assert client.body == b""


def test_our_own_faults_stay_what_they_are() -> None:
    fault = UpstreamUnreachable(upstream="u")

    assert as_sidecar_error(fault) is fault


def test_a_foreign_fault_tells_its_kind_and_place_and_not_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    try:
        raise LookupError("canary-secret")  # noqa: TRY301
    except LookupError as fault:
        told = as_sidecar_error(fault)

    assert (told.code, told.status) == ("sidecar_fault", 500)
    assert "canary" not in str(told)
    logged = text_of(caplog.records)
    assert "LookupError" in logged
    assert "test_answers.py" in logged
    assert "canary-secret" not in logged.replace(
        'raise LookupError("canary-secret")', ""
    )
