from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.errors import MalformedInput
from deuz_compiler.working_memory.actions import TaskInput
from deuz_compiler.working_memory.patch import (
    REJECTIONS,
    Patched,
    apply_patch,
    create_snapshot,
)
from deuz_compiler.working_memory.snapshot import (
    MAX_ITEMS,
    MAX_REMEMBERED,
    MAX_SNAPSHOT_BYTES,
    MAX_TEXT_LENGTH,
    Snapshot,
    read_snapshot,
    size_bytes,
    write_snapshot,
)

START = create_snapshot(
    "acme",
    goal="Make the nightly build green.",
    constraints=["Do not touch the release branch."],
    now=100.0,
)
HYPOTHESIS = {"op": "add-hypothesis", "text": "The test depends on the time zone."}
ATTEMPT = {"op": "record-attempt", "text": "Ran it in UTC.", "outcome": "succeeded"}


def patched(
    snapshot: Snapshot, *operations: dict[str, Any], now: float = 101.0, **fields: Any
) -> Patched:
    known = {
        "operation_id": f"op-{snapshot.revision}",
        "expected_revision": snapshot.revision,
        "writer": "host",
    }
    patch = {**known, "operations": list(operations), **fields}
    return apply_patch(snapshot, patch, now=now)


def test_memory_starts_at_revision_zero_written_by_the_host() -> None:
    memory = create_snapshot(
        "acme",
        goal="g",
        constraints=["a", "b"],
        tasks=[TaskInput(title="one"), TaskInput(id="two", title="2")],
        active_task_id="two",
        now=7.0,
    )

    assert (memory.revision, memory.scope, memory.version) == (0, "acme", 1)
    assert [c.id for c in memory.constraints] == ["constraints-0-0", "constraints-0-1"]
    assert [task.id for task in memory.tasks.items] == ["tasks-0-0", "two"]
    assert (memory.tasks.list_revision, memory.tasks.active_task_id) == (1, "two")
    items = (memory.goal, *memory.constraints, *memory.tasks.items)
    assert {(i.writer, i.revision, i.changed_at) for i in items if i} == {
        ("host", 0, 7.0)
    }


def test_time_in_whole_seconds_is_written_as_it_will_be_read() -> None:
    memory = write_snapshot(create_snapshot("s", goal="g", now=7))

    assert memory == write_snapshot(read_snapshot(memory))
    assert memory == write_snapshot(create_snapshot("s", goal="g", now=7.0))


def test_memory_without_tasks_has_no_plan_yet() -> None:
    assert START.tasks.list_revision == 0


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"scope": ""}, "scope"),
        ({"goal": " "}, "goal"),
        ({"goal": "\ud800"}, "not Unicode"),
        ({"constraints": ["x"] * (MAX_ITEMS["constraints"] + 1)}, "memory-full"),
        ({"tasks": [TaskInput(id="a", title="t")] * 2}, "twice"),
        ({"active_task_id": "a"}, "unknown-item"),
        ({"now": float("nan")}, "now"),
        ({"now": -1}, "now"),
        (
            {
                "tasks": [TaskInput(title="\U0001f600" * MAX_TEXT_LENGTH)] * 64,
            },
            "over 262144 bytes",
        ),
    ],
)
def test_start_that_breaks_the_rules_is_malformed(
    fields: dict[str, Any], fault: str
) -> None:
    with pytest.raises(MalformedInput, match=fault):
        create_snapshot(**{"scope": "s", "now": 0.0, **fields})


def test_faults_of_a_start_are_listed_together() -> None:
    with pytest.raises(MalformedInput) as caught:
        create_snapshot("", goal="", now=-1.0)

    assert len(caught.value.faults) == 3


def test_applied_patch_raises_the_revision_and_names_what_it_made() -> None:
    found = patched(START, HYPOTHESIS, ATTEMPT, writer="model")

    assert (found.status, found.revision, found.reason) == ("applied", 1, None)
    assert found.ids == ("hypotheses-1-0", "attempts-1-0")
    assert found.snapshot.hypotheses[0].status == "proposed"
    assert found.snapshot.hypotheses[0].changed_at == 101.0
    assert found.snapshot.attempts[0].status == "succeeded"
    assert START.revision == 0


def test_host_confirms_what_the_model_proposed() -> None:
    proposed = patched(START, HYPOTHESIS, writer="model").snapshot
    confirm = {
        "op": "set-hypothesis-status",
        "id": proposed.hypotheses[0].id,
        "status": "confirmed",
    }

    confirmed = patched(proposed, confirm)

    (hypothesis,) = confirmed.snapshot.hypotheses
    assert (confirmed.revision, hypothesis.status) == (2, "confirmed")
    assert (hypothesis.writer, hypothesis.revision) == ("model", 2)


OTHERS = patched(
    START,
    {"op": "add-decision", "text": "d", "status": "accepted"},
    {"op": "add-question", "text": "q"},
    {"op": "record-attempt", "text": "a"},
    {"op": "set-tasks", "tasks": [{"id": "t", "title": "t"}]},
    HYPOTHESIS,
).snapshot


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "set-goal", "text": "Skip the test."},
        {"op": "add-constraint", "text": "x"},
        {"op": "remove-constraint", "id": "constraints-0-0"},
        {"op": "set-tasks", "tasks": []},
        {"op": "set-hypothesis-status", "id": "hypotheses-1-0", "status": "confirmed"},
        {"op": "set-decision-status", "id": "decisions-1-0", "status": "reverted"},
        {"op": "answer-question", "id": "questions-1-0", "answer": "a"},
        {"op": "drop-question", "id": "questions-1-0"},
        {"op": "set-attempt-outcome", "id": "attempts-1-0", "outcome": "failed"},
        {"op": "remove-item", "id": "decisions-1-0"},
        {"op": "add-decision", "text": "d", "status": "accepted"},
        {"op": "add-hypothesis", "text": "h", "status": "confirmed"},
        {
            "op": "add-observation",
            "text": "o",
            "sources": [{"kind": "host", "ref": "r"}],
        },
    ],
)
def test_what_the_host_may_the_model_may_not(operation: dict[str, Any]) -> None:
    refused = patched(OTHERS, ATTEMPT, operation, writer="model")
    allowed = patched(OTHERS, ATTEMPT, operation)

    assert (refused.status, refused.reason, refused.operation) == (
        "rejected",
        "forbidden",
        1,
    )
    assert refused.snapshot is OTHERS
    assert allowed.status == "applied"


def test_model_may_name_the_task_it_works_on() -> None:
    found = patched(OTHERS, {"op": "set-active-task", "id": "t"}, writer="model")

    assert found.snapshot.tasks.active_task_id == "t"


def test_model_goes_on_with_its_own_items() -> None:
    ask = {"op": "add-question", "text": "q"}
    answer = {"op": "answer-question", "id": "questions-1-0", "answer": "yes"}
    drop = {"op": "remove-item", "id": "hypotheses-1-0"}

    found = patched(START, ask, HYPOTHESIS, answer, drop, writer="model")

    assert found.status == "applied"
    assert found.ids == ("questions-1-0",)
    assert [(q.status, q.detail) for q in found.snapshot.questions] == [
        ("answered", "yes")
    ]
    assert found.snapshot.hypotheses == ()


def test_patch_for_another_revision_is_rejected() -> None:
    found = patched(OTHERS, ATTEMPT, expected_revision=0, operation_id="late")

    assert (found.status, found.reason) == ("rejected", "revision-mismatch")
    assert (found.revision, found.snapshot) == (1, OTHERS)


def test_replay_is_a_duplicate_with_the_first_answer() -> None:
    first = patched(START, ATTEMPT, operation_id="step-3:call-7")
    later = patched(first.snapshot, HYPOTHESIS).snapshot

    again = patched(later, ATTEMPT, operation_id="step-3:call-7", expected_revision=0)

    assert (again.status, again.revision, again.ids) == ("duplicate", 1, first.ids)
    assert again.snapshot is later


def test_operation_id_of_another_patch_is_rejected() -> None:
    first = patched(START, ATTEMPT, operation_id="same").snapshot

    found = patched(first, HYPOTHESIS, operation_id="same")

    assert (found.status, found.reason) == ("rejected", "operation-id-reused")


def test_rejected_patch_may_be_tried_again_under_its_id() -> None:
    missing = {"op": "drop-question", "id": "questions-1-0"}
    asked = {"op": "add-question", "text": "q"}

    refused = patched(START, missing, operation_id="drop")
    memory = patched(START, asked).snapshot

    assert (refused.reason, refused.operation) == ("unknown-item", 0)
    assert patched(memory, missing, operation_id="drop").status == "applied"


def test_full_list_rejects_the_whole_patch() -> None:
    memory = START
    for _ in range(MAX_ITEMS["questions"] // 16):
        memory = patched(memory, *[{"op": "add-question", "text": "q"}] * 16).snapshot

    found = patched(memory, ATTEMPT, {"op": "add-question", "text": "q"})

    assert (found.status, found.reason, found.operation) == (
        "rejected",
        "memory-full",
        1,
    )
    assert found.snapshot.attempts == ()


def test_memory_that_would_grow_over_its_size_rejects_the_patch() -> None:
    large = {"op": "add-observation", "text": "\U0001f600" * MAX_TEXT_LENGTH}
    memory = patched(START, *[large] * 16).snapshot

    found = patched(patched(memory, *[large] * 15).snapshot, *[large] * 16)

    assert (found.status, found.reason, found.operation) == (
        "rejected",
        "memory-full",
        None,
    )


def test_memory_may_be_filled_to_the_last_byte() -> None:
    large = {"op": "add-observation", "text": "\U0001f600" * MAX_TEXT_LENGTH}
    memory = patched(patched(START, *[large] * 16).snapshot, *[large] * 15).snapshot

    def filled(length: int) -> Patched:
        texts = (*["x" * MAX_TEXT_LENGTH] * 4, "x" * length)
        return patched(memory, *[{"op": "add-question", "text": t} for t in texts])

    spare = MAX_SNAPSHOT_BYTES - size_bytes(filled(1).snapshot)

    assert 0 < spare < MAX_TEXT_LENGTH
    assert filled(1 + spare).status == "applied"
    assert size_bytes(filled(1 + spare).snapshot) == MAX_SNAPSHOT_BYTES
    assert filled(2 + spare).reason == "memory-full"


def test_start_may_be_filled_to_the_last_byte() -> None:
    tasks = [TaskInput(title="\U0001f600" * MAX_TEXT_LENGTH)] * 31

    def filled(length: int) -> Snapshot:
        rules = ["x" * MAX_TEXT_LENGTH] * 4
        goal = "x" * length
        return create_snapshot("s", goal=goal, constraints=rules, tasks=tasks, now=0)

    spare = MAX_SNAPSHOT_BYTES - size_bytes(filled(1))

    assert 0 < spare < MAX_TEXT_LENGTH
    assert size_bytes(filled(1 + spare)) == MAX_SNAPSHOT_BYTES
    assert read_snapshot(write_snapshot(filled(1 + spare))) == filled(1 + spare)
    with pytest.raises(MalformedInput, match="over"):
        filled(2 + spare)


def test_only_so_many_operations_are_remembered_and_older_replays_do_no_harm() -> None:
    memory = START
    for _ in range(MAX_REMEMBERED + 1):
        memory = patched(memory, {"op": "set-goal", "text": "g"}).snapshot

    assert len(memory.applied) == MAX_REMEMBERED
    replayed = patched(
        memory,
        {"op": "set-goal", "text": "g"},
        operation_id="op-0",
        expected_revision=0,
    )
    assert (replayed.status, replayed.reason) == ("rejected", "revision-mismatch")


@pytest.mark.parametrize("now", [float("nan"), float("inf"), -1.0, 1e13])
def test_time_must_be_a_time(now: float) -> None:
    with pytest.raises(MalformedInput, match="now"):
        patched(START, ATTEMPT, now=now)


def test_malformed_patch_is_an_error_not_a_rejection() -> None:
    with pytest.raises(MalformedInput):
        apply_patch(START, {"operations": [{"op": "set-goal"}]}, now=0.0)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6).map(lambda t: t + ".")
IDS = st.sampled_from(
    [
        *[f"{name}-{n}-0" for name in ("hypotheses", "decisions") for n in (1, 2)],
        "questions-1-0",
        "attempts-2-0",
        "observations-1-1",
        "constraints-0-0",
        "t1",
        "t2",
    ]
)
SOURCES = st.lists(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["host", "tool", "user"]), "ref": st.just("r")}
    ),
    max_size=2,
)


def operation(name: str, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"op": st.just(name), **fields})


OPERATIONS = st.one_of(
    operation("set-goal", text=st.none() | TEXTS),
    operation("add-constraint", text=TEXTS),
    operation("remove-constraint", id=IDS),
    operation(
        "set-tasks",
        tasks=st.lists(
            st.fixed_dictionaries(
                {"title": TEXTS, "id": st.sampled_from(["t1", "t2", "t3"])}
            ),
            max_size=3,
            unique_by=lambda task: task["id"],
        ),
    ),
    operation("set-active-task", id=st.none() | IDS),
    operation("add-hypothesis", text=TEXTS, sources=SOURCES),
    operation("add-decision", text=TEXTS, rationale=TEXTS),
    operation("add-question", text=TEXTS),
    operation("add-observation", text=TEXTS, sources=SOURCES),
    operation("record-attempt", text=TEXTS),
    operation("answer-question", id=IDS, answer=TEXTS),
    operation("drop-question", id=IDS),
    operation("set-hypothesis-status", id=IDS, status=st.just("confirmed")),
    operation("remove-item", id=IDS),
)
PATCHES = st.lists(
    st.fixed_dictionaries(
        {
            "operation_id": st.sampled_from(["o1", "o2", "o3", "o4", "o5"]),
            "expected_revision": st.sampled_from([0, 1, 2, 3]),
            "writer": st.sampled_from(["host", "model"]),
            "operations": st.lists(OPERATIONS, min_size=1, max_size=4),
        }
    ),
    max_size=8,
)


@given(PATCHES)
def test_history_of_patches_keeps_every_law(patches: list[dict[str, Any]]) -> None:
    memory = START
    for patch in patches:
        before = write_snapshot(memory)
        found = apply_patch(memory, patch, now=5.0)

        assert write_snapshot(memory) == before
        assert read_snapshot(write_snapshot(found.snapshot)) == found.snapshot
        assert apply_patch(memory, patch, now=5.0) == found
        if found.status == "applied":
            again = apply_patch(found.snapshot, patch, now=6.0)
            assert again.status == "duplicate"
            assert again.snapshot is found.snapshot
            assert (again.revision, again.ids) == (found.revision, found.ids)
            assert found.revision == memory.revision + 1 == found.snapshot.revision
        else:
            assert found.snapshot is memory
            assert (found.reason in REJECTIONS) == (found.status == "rejected")
        memory = found.snapshot


@given(PATCHES)
def test_model_never_touches_what_is_the_hosts(patches: list[dict[str, Any]]) -> None:
    memory = OTHERS
    for patch in patches:
        fixed = {**patch, "writer": "model", "expected_revision": memory.revision}
        memory = apply_patch(memory, fixed, now=5.0).snapshot

    assert memory.goal == OTHERS.goal
    assert memory.constraints == OTHERS.constraints
    assert memory.tasks.items == OTHERS.tasks.items
    for name in ("decisions", "questions", "attempts", "hypotheses", "observations"):
        of_host = [i for i in memory.items(name) if i.writer == "host"]
        assert of_host == list(OTHERS.items(name))
        cited = [s for i in memory.items(name) for s in i.sources]
        assert [s for s in cited if s.kind == "host"] == []
