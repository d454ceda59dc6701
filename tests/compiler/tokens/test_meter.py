import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.tokens.estimate import estimate_bytes
from deuz_compiler.tokens.estimator import HEURISTIC, Estimator
from deuz_compiler.tokens.meter import (
    Anchor,
    RequestParts,
    Snapshot,
    anchor_of,
    measure,
    request_tokens,
)

TOOL = {"name": "read", "input_schema": {"type": "object", "enum": ["a"] * 20}}
TURNS = tuple(
    json.dumps({"role": role, "content": f"turn {role} " * 9}).encode()
    for role in ("user", "assistant", "user")
)
ANSWER = json.dumps({"role": "assistant", "content": "said " * 30}).encode()


def parts(**members: Any) -> RequestParts:
    return RequestParts("anthropic", "m", **{"turns": TURNS, **members})


def snapshot(**members: Any) -> Snapshot:
    return request_tokens(parts(**members), HEURISTIC)[0]


def anchored(sent: Snapshot, usage: tuple[int, int] | None = None) -> Anchor:
    return anchor_of(sent, answer_tokens=estimate_bytes(ANSWER), reported=usage)


def test_request_is_the_sum_of_its_parts() -> None:
    system, schema = b'"be brief"', b'{"type":"object"}'
    tools = json.dumps([TOOL, TOOL]).encode()

    found = snapshot(system=system, tools=tools, output_schema=schema)

    assert found.system_tokens == estimate_bytes(system)
    assert found.schema_tokens == estimate_bytes(schema)
    assert found.tools_tokens == 2 * estimate_bytes(json.dumps(TOOL).encode())
    assert found.frame_tokens == 346
    assert [node.tokens for node in found.nodes] == [estimate_bytes(t) for t in TURNS]
    assert found.surface_tokens == sum(node.tokens for node in found.nodes)
    assert found.total_tokens == found.fixed_tokens + found.surface_tokens
    assert found.fixed_tokens == 346 + sum(
        (found.system_tokens, found.schema_tokens, found.tools_tokens)
    )


def test_frame_can_be_replaced() -> None:
    asked = parts(tools=json.dumps([TOOL]).encode())

    assert request_tokens(asked, HEURISTIC, frame=290)[0].frame_tokens == 290


@pytest.mark.parametrize("nothing", [b"", b"null", b" [] ", b'""', b"{}"])
def test_what_says_nothing_counts_as_absent(nothing: bytes) -> None:
    found = snapshot(system=nothing, tools=nothing, output_schema=nothing)

    assert found == snapshot()
    assert found.fixed_tokens == 0


def test_deferred_tool_counts_once_a_turn_refers_to_it() -> None:
    tools = json.dumps([{**TOOL, "defer_loading": True}]).encode()
    reference = b'[{"type":"tool_reference","tool_name":"read"}]'

    hidden = snapshot(tools=tools)
    found = snapshot(tools=tools, turns=(*TURNS, reference))

    assert (hidden.tools_tokens, hidden.frame_tokens) == (0, 346)
    assert found.tools_tokens > 0


def test_next_request_counts_its_new_turns_only() -> None:
    asked: list[bytes] = []

    def count(raw: bytes) -> int:
        asked.append(raw)
        return estimate_bytes(raw)

    counting = Estimator("counting", len, count)
    tools = json.dumps([TOOL]).encode()
    first, memo = request_tokens(parts(tools=tools), counting)
    assert asked
    asked.clear()

    grown = parts(tools=tools, turns=(*TURNS, ANSWER))
    second, memo = request_tokens(grown, counting, memo=memo)

    assert asked == [ANSWER]
    assert second.nodes[:-1] == first.nodes
    assert second == request_tokens(grown, counting)[0]


def test_snapshot_is_immutable() -> None:
    with pytest.raises(AttributeError):
        snapshot().tools_tokens = 1  # type: ignore[misc]


def test_without_an_answer_everything_is_estimated() -> None:
    found = snapshot()

    now = measure(found)

    assert (now.kind, now.total_tokens) == ("estimated", found.total_tokens)
    assert (now.delta_tokens, now.surface_tokens) == (0, found.surface_tokens)
    assert now.nodes == found.nodes
    assert (now.pressure_tokens, now.projected_tokens) == (None, None)
    assert measure(Snapshot()).kind == "none"
    assert measure(Snapshot()).total_tokens == 0


def test_usage_of_the_same_header_is_the_baseline_and_changes_count_with_sign() -> None:
    sent = snapshot()
    anchor = anchored(sent, (900, 100))

    answered = measure(snapshot(turns=(*TURNS, ANSWER)), anchor)
    grown = measure(snapshot(turns=(*TURNS, ANSWER, TURNS[0])), anchor)
    shrunk = measure(snapshot(turns=TURNS[:1]), anchor)

    assert (answered.kind, answered.total_tokens) == ("usage", 1_000)
    assert answered.delta_tokens == 0
    assert grown.total_tokens == 1_000 + estimate_bytes(TURNS[0])
    assert shrunk.delta_tokens < 0
    assert shrunk.total_tokens == 1_000 + shrunk.delta_tokens


def test_usage_below_the_estimate_is_not_believed() -> None:
    sent = snapshot()
    estimate = sent.total_tokens + estimate_bytes(ANSWER)

    below, equal = anchored(sent, (estimate - 2, 1)), anchored(sent, (estimate - 1, 1))

    assert (below.kind, below.tokens) == ("estimated", estimate)
    assert (equal.kind, equal.tokens) == ("usage", estimate)
    assert anchored(sent).kind == "estimated"


@pytest.mark.parametrize(
    "changed",
    [
        {"system": b'"new rules"'},
        {"tools": json.dumps([TOOL]).encode()},
        {"output_schema": b'{"type":"array"}'},
    ],
)
def test_another_header_is_estimated_anew_and_keeps_the_sample(
    changed: dict[str, bytes],
) -> None:
    anchor = anchored(snapshot(), (900, 100))
    other = snapshot(**changed)

    now = measure(other, anchor)

    assert (now.kind, now.total_tokens) == ("estimated", other.total_tokens)
    assert now.pressure_tokens == now.projected_tokens == 900


def test_sample_is_projected_to_the_turns_there_are_now() -> None:
    anchor = anchored(snapshot(), (900, 100))

    grown = measure(snapshot(turns=(*TURNS, ANSWER)), anchor, window_tokens=2_000)
    gone = measure(snapshot(turns=()), anchored(snapshot(), (10, 1)))

    assert grown.pressure_tokens == 900
    assert grown.projected_tokens == 900 + estimate_bytes(ANSWER)
    assert grown.window_tokens == 2_000
    assert gone.projected_tokens == 0


def test_sample_of_another_model_says_nothing() -> None:
    anchor = anchored(snapshot(), (900, 100))
    other = msgspec.structs.replace(parts(), model="other")

    now = measure(request_tokens(other, HEURISTIC)[0], anchor)

    assert (now.pressure_tokens, now.projected_tokens) == (None, None)
    assert now.kind == "estimated"


def test_later_answer_replaces_the_anchor() -> None:
    second = snapshot(turns=(*TURNS, ANSWER, TURNS[0]))

    anchor = anchored(second, (5_000, 100))

    assert measure(second, anchor).pressure_tokens == 5_000
    assert anchor.sampled_tokens == second.surface_tokens


def test_estimates_are_scaled_to_the_model() -> None:
    sent = snapshot()
    estimate = sent.total_tokens + estimate_bytes(ANSWER)
    anchor = anchor_of(
        sent,
        answer_tokens=estimate_bytes(ANSWER),
        reported=(estimate, 0),
        factor_permille=2_000,
    )

    plain = measure(sent, factor_permille=1_500)
    grown = measure(
        snapshot(turns=(*TURNS, ANSWER, TURNS[0])), anchor, factor_permille=2_000
    )

    assert (anchor.kind, anchor.tokens) == ("estimated", 2 * estimate)
    assert plain.total_tokens == -(-sent.total_tokens * 3 // 2)
    assert grown.total_tokens == 2 * estimate + 2 * estimate_bytes(TURNS[0])


@given(
    sent=st.lists(st.binary(max_size=40), max_size=6),
    now=st.lists(st.binary(max_size=40), max_size=6),
    usage=st.none() | st.tuples(st.integers(0, 500), st.integers(0, 500)),
    factor=st.integers(250, 4_000),
)
def test_nothing_is_ever_below_nothing(
    sent: list[bytes],
    now: list[bytes],
    usage: tuple[int, int] | None,
    factor: int,
) -> None:
    anchor = anchor_of(
        snapshot(turns=tuple(sent)),
        answer_tokens=3,
        reported=usage,
        factor_permille=factor,
    )

    found = measure(snapshot(turns=tuple(now)), anchor, factor_permille=factor)

    assert found.total_tokens == max(0, found.baseline_tokens + found.delta_tokens)
    assert found.surface_tokens == sum(node.tokens for node in found.nodes)
    assert (found.projected_tokens or 0) >= 0
    assert (found.projected_tokens is None) == (usage is None)
