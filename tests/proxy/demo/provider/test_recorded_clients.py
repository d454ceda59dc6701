"""Requests of real clients, as they were recorded, break no rule."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deuz_proxy.demo.provider import judge_body
from deuz_proxy.demo.provider.routing import find_route

RECORDED = Path(__file__).resolve().parents[4] / "../shared/corpus/clients"


def recorded() -> Iterator[Any]:
    for file in sorted(RECORDED.glob("*.json")):
        for number, request in enumerate(json.loads(file.read_text())["requests"]):
            payload = request.get("body") or request.get("body_skeleton")
            route = find_route("POST", request["path"].split("?")[0], {})
            if payload and route.purpose == "generate":
                yield pytest.param(route, payload, id=f"{file.stem}-{number}")


def restore(value: Any) -> Any:
    """Undo what the recording put in: names of left out items, and equal ids."""
    if isinstance(value, list):
        return [restore(v) for v in value if not str(v).startswith("<... ")]
    if isinstance(value, dict):
        is_item = value.get("type") == "message"
        return {k: restore(v) for k, v in value.items() if not (is_item and k == "id")}
    return value


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings are not here")
@pytest.mark.parametrize(("route", "payload"), list(recorded()))
def test_a_recorded_request_is_accepted(route: Any, payload: Any) -> None:
    body = json.dumps(restore(payload)).encode()

    assert judge_body(route.wire, body, model=route.model) is None
