from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.canonical import digest_text
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.refreshing.decide import (
    Decision,
    RefreshLimits,
    Step,
    forget_records,
    place_step,
    request_refresh,
    retry_step,
    start_step,
)
from deuz_compiler.refreshing.state import (
    Placement,
    RefreshState,
    new_state,
    read_state,
    write_state,
)

LIMITS = RefreshLimits(min_steps=2, max_passes=2)


def begun(**fields: Any) -> RefreshState:
    known = {"version": 1, "passes": 1, "last_step": 10, "task": "t1", **fields}
    return RefreshState(**known)


def started(
    state: RefreshState, number: int = 11, limits: RefreshLimits = LIMITS, **fields: Any
) -> tuple[RefreshState, Decision]:
    step = Step(number=number, **{"task": "t1", **fields})
    return start_step(state, step, limits)


def record(record_id: str, text: str = "text", **fields: Any) -> Candidate:
    return Candidate(
        source="docs", kind="rag", record_id=record_id, text=text, **fields
    )


def placement(
    record_id: str, text: str = "text", *, step: int = 10, is_mandatory: bool = False
) -> Placement:
    return Placement(
        step=step,
        source="docs",
        record_id=record_id,
        digest=digest_text(text),
        is_mandatory=is_mandatory,
    )


def test_first_call_looks_up_and_spends_a_pass() -> None:
    state, decision = started(new_state(), 0)

    assert (decision.reason, decision.takes, decision.is_asking) == (
        "initial",
        "all",
        True,
    )
    assert decision.pass_number == state.passes == 1
    assert (state.last_step, state.task) == (0, "t1")


def test_between_refreshes_nothing_is_looked_up() -> None:
    before = begun()

    state, decision = started(before, 30)

    assert state == before
    assert (decision.reason, decision.takes, decision.is_asking) == (
        "reused",
        "none",
        False,
    )
    assert decision.pass_number == 1


@pytest.mark.parametrize(
    ("number", "fields", "reason"),
    [
        (11, {"task": "t2"}, "reused"),
        (12, {"task": "t2"}, "task-changed"),
        (12, {"task": None}, "task-changed"),
        (12, {"task": "t2", "is_fresh_turn": True}, "task-changed"),
        (11, {"is_fresh_turn": True}, "reused"),
        (12, {"is_fresh_turn": True}, "fresh-turn"),
        (10, {"is_requested": True}, "host-request"),
        (11, {"task": "t2", "is_requested": True}, "host-request"),
        (10, {"is_redacted": True, "is_requested": True}, "redacted"),
    ],
)
def test_what_makes_a_refresh_due(
    number: int, fields: dict[str, Any], reason: str
) -> None:
    state, decision = started(begun(), number, **fields)

    assert decision.reason == reason
    assert decision.is_redacted == (reason == "redacted")
    assert not decision.is_skipped
    assert state.passes == (1 if reason == "reused" else 2)


def test_task_that_changed_too_early_stays_due() -> None:
    early, _ = started(begun(), 11, task="t2")
    served, decision = started(early, 12, task="t2")
    _, after = started(served, 20, task="t2")

    assert decision.reason == "task-changed"
    assert (served.task, served.last_step) == ("t2", 12)
    assert after.reason == "reused"


def test_count_that_began_anew_is_not_early() -> None:
    same, _ = started(begun(), 10, task="t2")
    _, decision = started(same, 2, task="t2")

    assert decision.reason == "task-changed"


def test_request_is_served_once() -> None:
    requested = request_refresh(begun())

    state, decision = started(requested)
    _, after = started(state, 20)

    assert (decision.reason, after.reason) == ("host-request", "reused")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"task": "t2"}, "task-changed"), ({"is_requested": True}, "host-request")],
)
def test_past_the_limit_a_due_refresh_is_told_once(
    fields: dict[str, Any], reason: str
) -> None:
    before = begun(passes=2)
    allowed = RefreshLimits(min_steps=2, max_passes=3)

    state, decision = started(before, 12, **fields)
    _, after = started(state, 20, task=fields.get("task", "t1"))

    assert started(before, 12, allowed, **fields)[1].reason == reason
    assert (decision.reason, decision.fallback) == ("reused", "pass-limit")
    assert (decision.takes, decision.pass_number, state.passes) == ("none", 2, 2)
    assert (after.reason, after.fallback) == ("reused", None)


def test_next_due_refresh_past_the_limit_is_told_again() -> None:
    state, _ = started(begun(passes=2), 12, task="t2")

    _, decision = started(state, 14, task="t1")

    assert decision.fallback == "pass-limit"


def test_limit_of_no_pass_is_told_on_the_first_call_only() -> None:
    none = RefreshLimits(max_passes=0)

    state, first = started(new_state(), 0, none)
    _, second = started(state, 1, none)

    assert (first.fallback, second.fallback) == ("pass-limit", None)
    assert read_state(write_state(state)) == state


def test_forgotten_record_forces_a_lookup_past_every_limit() -> None:
    before = begun(passes=2, placements=(placement("a"), placement("b")))

    forgotten = forget_records(before, ["docs/a"])
    state, decision = started(forgotten, 10)

    assert [p.record_id for p in forgotten.placements] == ["b"]
    assert (decision.reason, decision.takes, decision.is_redacted) == (
        "redacted",
        "all",
        True,
    )
    assert (state.passes, state.is_redacted) == (3, False)
    assert started(state, 11)[1].reason == "reused"


def test_forgetting_what_was_never_placed_changes_nothing() -> None:
    before = begun(placements=(placement("a"),))

    assert forget_records(before, ["docs/b"]) is before


@pytest.mark.parametrize(
    ("state", "fields", "reason"),
    [
        (new_state(), {}, "initial"),
        (begun(), {"is_requested": True}, "host-request"),
        (begun(), {"is_redacted": True}, "redacted"),
        (begun(passes=2), {"is_requested": True}, "host-request"),
        (begun(), {"task": "t2"}, "task-changed"),
    ],
)
def test_without_a_query_nobody_is_asked_and_the_refresh_stays_due(
    state: RefreshState, fields: dict[str, Any], reason: str
) -> None:
    after, decision = started(state, 12, has_query=False, **fields)

    assert (decision.reason, decision.is_skipped) == (reason, True)
    assert (decision.is_asking, decision.fallback) == (False, None)
    assert (after.passes, after.last_step) == (state.passes, state.last_step)
    task = fields.get("task", "t1")
    unlimited = RefreshLimits(min_steps=2, max_passes=9)
    assert started(after, 13, unlimited, task=task)[1].reason == reason


def test_step_within_reach_of_its_blocks_has_nothing_to_put_back() -> None:
    state = begun(placements=(placement("a"), placement("m", is_mandatory=True)))
    there = tuple(p.placed for p in state.placements)

    for surface in (there, None):
        _, decision = started(state, surface=surface, held=(record("a"),))
        assert (decision.restored, decision.wanted) == ((), ())
        assert decision.reason == "reused"


def test_record_that_lost_its_block_comes_back_from_what_is_held() -> None:
    state = begun(placements=(placement("a"), placement("m", is_mandatory=True)))
    held = (record("a"), record("m", requirement="mandatory"), record("other"))

    after, decision = started(state, surface=(), held=held)

    assert decision.restored == held[:2]
    assert (decision.reason, decision.is_asking) == ("reused", False)
    assert after == state


def test_after_a_restart_only_what_is_mandatory_is_asked_for() -> None:
    lost = (placement("a"), placement("m", is_mandatory=True))
    state = begun(passes=2, placements=lost)

    after, decision = started(read_state(write_state(state)), 10, surface=())

    assert (decision.reason, decision.takes) == ("mandatory-lost", "mandatory")
    assert (decision.is_asking, decision.wanted) == (True, ("docs/m",))
    assert (decision.restored, decision.fallback) == ((), None)
    assert after == state


@pytest.mark.parametrize(
    ("fields", "reason", "takes"),
    [
        ({"is_requested": True}, "host-request", "all"),
        ({"is_requested": True, "has_query": False}, "host-request", "mandatory"),
    ],
)
def test_due_refresh_also_wants_what_is_mandatory(
    fields: dict[str, Any], reason: str, takes: str
) -> None:
    state = begun(placements=(placement("m", is_mandatory=True),))

    _, decision = started(state, surface=(), **fields)

    assert (decision.reason, decision.takes) == (reason, takes)
    assert (decision.is_asking, decision.wanted) == (True, ("docs/m",))


def test_pass_limit_still_asks_for_what_is_mandatory() -> None:
    state = begun(passes=2, placements=(placement("m", is_mandatory=True),))

    _, decision = started(state, surface=(), is_requested=True)

    assert (decision.reason, decision.fallback) == ("mandatory-lost", "pass-limit")
    assert (decision.takes, decision.wanted) == ("mandatory", ("docs/m",))


def test_older_revision_never_comes_back_after_a_newer_one() -> None:
    old, new = record("a", "old"), record("a", "new")
    state = begun(placements=(placement("a", "old"), placement("a", "new", step=11)))
    only_old = (PlacedRecord("docs", "a", "", digest_text("old")),)
    only_new = (PlacedRecord("docs", "a", "", digest_text("new")),)

    def restored(surface: tuple[PlacedRecord, ...], *held: Candidate) -> list[str]:
        _, decision = started(state, surface=surface, held=held)
        return [candidate.text for candidate in decision.restored]

    assert restored((), old, new) == ["new"]
    assert restored((), new, old) == ["new"]
    assert restored((), old) == []
    assert restored(only_old, old, new) == ["new"]
    assert restored(only_new, old, new) == []


def test_placed_records_are_noted_with_the_block_they_are_in() -> None:
    first, decision = started(new_state(), 0)
    chosen = (record("a"), record("m", requirement="mandatory", digest="sha256:1"))

    state = place_step(first, decision, chosen, package="sha256:block")

    assert state.package == "sha256:block"
    assert [(p.step, p.key, p.digest, p.is_mandatory) for p in state.placements] == [
        (0, "docs/a", digest_text("text"), False),
        (0, "docs/m", "sha256:1", True),
    ]


def test_step_that_placed_nothing_leaves_the_last_block() -> None:
    before = begun(package="sha256:block", placements=(placement("a"),))

    _, decision = started(before)

    assert place_step(before, decision, (), package="") is before


def test_retry_takes_back_what_the_step_placed_and_asks_nobody() -> None:
    before = begun(placements=(placement("a", "old"),))
    state, decision = started(before, 12, is_requested=True)
    placed = place_step(state, decision, (record("a", "new"), record("b")), package="x")

    retried, again = retry_step(placed, decision)

    assert again == msgspec.structs.replace(decision, reason="overflow-retry")
    assert (again.is_asking, again.takes) == (False, "all")
    assert retried.placements == before.placements
    assert retried.passes == state.passes
    smaller = place_step(retried, again, (record("b"),), package="y")
    assert [p.key for p in smaller.placements] == ["docs/a", "docs/b"]


STEPS = st.lists(
    st.fixed_dictionaries(
        {
            "task": st.sampled_from([None, "t1", "t2"]),
            "has_query": st.booleans(),
            "is_fresh_turn": st.booleans(),
            "is_requested": st.booleans(),
            "is_redacted": st.booleans(),
            "surface": st.sampled_from([None, ()]),
        }
    ),
    max_size=12,
)


@given(steps=STEPS, min_steps=st.integers(0, 3), max_passes=st.integers(0, 3))
def test_any_conversation_keeps_the_laws_and_survives_a_restart_at_any_step(
    steps: list[dict[str, Any]], min_steps: int, max_passes: int
) -> None:
    limits = RefreshLimits(min_steps, max_passes)
    state = new_state()
    for number, fields in enumerate(steps):
        step = Step(number=number, **fields)
        restarted = read_state(write_state(state))
        after, decision = start_step(state, step, limits)

        assert start_step(restarted, step, limits) == (after, decision)
        spent = after.passes - state.passes
        assert spent == (decision.takes == "all")
        assert not (spent and not step.has_query)
        if spent and decision.reason != "redacted":
            assert after.passes <= max_passes
        if decision.reason in ("task-changed", "fresh-turn") and spent:
            assert state.last_step is not None
            assert number - state.last_step >= min_steps
        if decision.fallback:
            assert state.passes >= max_passes
        state = place_step(
            after, decision, [record("m", requirement="mandatory")], package=""
        )
