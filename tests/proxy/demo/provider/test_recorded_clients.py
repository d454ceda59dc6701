"""Requests of real clients, as they were recorded, break no rule and are understood."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deuz_compiler import lift, place_for_context, read_parts
from deuz_compiler.wires.table import WIRES
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


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings are not here")
@pytest.mark.parametrize(
    ("route", "payload"), [each for each in recorded() if each.values[0].wire in WIRES]
)
def test_a_recorded_request_is_understood_turn_by_turn(
    route: Any, payload: Any
) -> None:
    payload = restore(payload)
    body = json.dumps(payload).encode()
    history = payload[WIRES[route.wire].rules.history]

    envelope = lift(route.wire, body)

    assert len(envelope.turns) == (1 if isinstance(history, str) else len(history))
    for turn in envelope.turns:
        assert read_parts(route.wire, body[turn.start : turn.end])
    said = [turn.role for turn in envelope.turns if turn.role != "system"]
    assert (place_for_context(envelope) is not None) == (said[-1] == "user")


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings are not here")
def test_codex_gives_its_items_new_ids_and_the_turns_stay_the_same() -> None:
    payload = json.loads((RECORDED / "codex.json").read_text())["requests"][0][
        "body_skeleton"
    ]
    renamed = [
        {**item, "id": f"msg_{number}"} for number, item in enumerate(payload["input"])
    ]

    before, after = (
        lift("openai_responses", json.dumps({**payload, "input": items}).encode())
        for items in (payload["input"], renamed)
    )

    assert before.lead == 2
    assert [turn.digest for turn in before.turns] == [t.digest for t in after.turns]
