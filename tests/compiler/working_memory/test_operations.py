import pytest

from deuz_compiler.errors import MalformedInput
from deuz_compiler.working_memory.actions import (
    Action,
    Add,
    Change,
    Remove,
    SetActiveTask,
    SetGoal,
    SetTasks,
    TaskInput,
)
from deuz_compiler.working_memory.operations import HOST_ONLY, READERS, load_patch
from deuz_compiler.working_memory.snapshot import SourceRef

REMOVABLE = ("decisions", "questions", "attempts", "hypotheses", "observations")
CITED = [{"kind": "tool", "ref": "call-7"}]
SOURCES = (SourceRef("tool", "call-7"),)


def patch(*operations: object, **fields: object) -> dict[str, object]:
    known = {"operation_id": "op-1", "expected_revision": 0, "writer": "host"}
    return {**known, "operations": list(operations), **fields}


def faults_of(raw: object) -> tuple[str, ...]:
    with pytest.raises(MalformedInput) as caught:
        load_patch(raw)
    return caught.value.faults


@pytest.mark.parametrize(
    ("raw", "action"),
    [
        ({"op": "set-goal", "text": "g"}, SetGoal(text="g")),
        ({"op": "set-goal", "text": None}, SetGoal(text=None)),
        (
            {"op": "add-constraint", "text": "c", "sources": CITED},
            Add(list_name="constraints", text="c", sources=SOURCES),
        ),
        ({"op": "remove-constraint", "id": "c"}, Remove(("constraints",), "c")),
        (
            {"op": "set-tasks", "tasks": [{"title": "t"}], "active_task_id": "a"},
            SetTasks(tasks=(TaskInput(title="t"),), active_task_id="a"),
        ),
        ({"op": "set-active-task", "id": None}, SetActiveTask(id=None)),
        (
            {"op": "add-decision", "text": "d", "rationale": "r"},
            Add(list_name="decisions", text="d", status="proposed", detail="r"),
        ),
        (
            {"op": "add-decision", "text": "d", "status": "accepted"},
            Add(list_name="decisions", text="d", status="accepted", is_ruling=True),
        ),
        (
            {"op": "set-decision-status", "id": "d", "status": "reverted"},
            Change(list_name="decisions", id="d", status="reverted"),
        ),
        (
            {"op": "add-question", "text": "q"},
            Add(list_name="questions", text="q", status="open"),
        ),
        (
            {"op": "answer-question", "id": "q", "answer": "a", "sources": CITED},
            Change(
                list_name="questions",
                id="q",
                status="answered",
                detail="a",
                sources=SOURCES,
            ),
        ),
        (
            {"op": "drop-question", "id": "q"},
            Change(list_name="questions", id="q", status="dropped"),
        ),
        (
            {"op": "record-attempt", "text": "a"},
            Add(list_name="attempts", text="a", status="in-progress"),
        ),
        (
            {"op": "set-attempt-outcome", "id": "a", "outcome": "failed"},
            Change(list_name="attempts", id="a", status="failed"),
        ),
        (
            {"op": "add-hypothesis", "text": "h"},
            Add(list_name="hypotheses", text="h", status="proposed"),
        ),
        (
            {"op": "add-hypothesis", "text": "h", "status": "rejected"},
            Add(list_name="hypotheses", text="h", status="rejected", is_ruling=True),
        ),
        (
            {"op": "set-hypothesis-status", "id": "h", "status": "confirmed"},
            Change(list_name="hypotheses", id="h", status="confirmed"),
        ),
        (
            {"op": "add-observation", "text": "o", "detail": "d"},
            Add(list_name="observations", text="o", detail="d"),
        ),
        ({"op": "remove-item", "id": "o"}, Remove(REMOVABLE, "o")),  # type: ignore[arg-type]  # Plain words.
    ],
)
def test_operation_has_one_meaning(raw: dict[str, object], action: Action) -> None:
    (operation,) = load_patch(patch(raw)).operations

    assert (operation.name, operation.action) == (raw["op"], action)


def test_what_only_the_host_may_do_is_the_list_of_the_seed() -> None:
    assert sorted(HOST_ONLY) == [
        "add-constraint",
        "remove-constraint",
        "set-decision-status",
        "set-goal",
        "set-hypothesis-status",
        "set-tasks",
    ]
    assert [name for name in HOST_ONLY if name not in READERS] == []


@pytest.mark.parametrize("count", [0, 17])
def test_patch_holds_one_to_sixteen_operations(count: int) -> None:
    operations = [{"op": "add-question", "text": "q"}] * count

    assert faults_of(patch(*operations)) == ("patch: operations holds not 1 to 16",)


def test_sixteen_operations_are_taken() -> None:
    loaded = load_patch(patch(*[{"op": "add-question", "text": "q"}] * 16))

    assert len(loaded.operations) == 16


def test_operations_may_be_a_tuple() -> None:
    raw = patch(operations=({"op": "add-question", "text": "q"},))

    assert len(load_patch(raw).operations) == 1


@pytest.mark.parametrize("raw", [None, [], "patch", 3])
def test_what_is_no_object_is_no_patch(raw: object) -> None:
    assert faults_of(raw) == ("patch: not an object",)


def test_every_fault_of_a_patch_is_listed() -> None:
    raw = patch(
        {"op": "add-question", "text": ""},
        {"op": "add-question", "texts": "q"},
        "set-goal",
        {"op": "replace", "path": "/goal"},
        {"op": ["set-goal"]},
        operation_id="no blanks",
        expected_revision=True,
        writer="user",
        note="",
    )

    faults = faults_of(raw)

    assert "patch: unknown field note" in faults
    assert any(fault.startswith("patch: operation_id:") for fault in faults)
    assert any(fault.startswith("patch: expected_revision:") for fault in faults)
    assert any(fault.startswith("patch: writer:") for fault in faults)
    assert any(fault.startswith("operations[0]: text:") for fault in faults)
    assert "operations[1]: unknown field texts" in faults
    assert "operations[1]: text is missing" in faults
    assert "operations[2]: not an object" in faults
    unknown = [fault for fault in faults if "op is not one of set-goal, " in fault]
    assert [fault[:13] for fault in unknown] == ["operations[3]", "operations[4]"]


def test_operations_that_are_no_list_are_a_fault() -> None:
    assert faults_of(patch(operations={})) == ("patch: operations is not a list",)


def test_id_given_to_two_tasks_is_a_fault() -> None:
    tasks = [{"id": "a", "title": "t"}, {"id": "a", "title": "u"}]

    faults = faults_of(patch({"op": "set-tasks", "tasks": tasks}))

    assert faults == ("operations[0]: tasks: an id is given twice",)


def test_half_a_surrogate_pair_is_a_fault() -> None:
    faults = faults_of(patch({"op": "set-goal", "text": "a\ud800"}))

    assert faults == ("operations: a text is not Unicode",)


def test_digest_is_of_what_is_done_and_by_whom() -> None:
    goal = {"op": "set-goal", "text": "g"}
    first = load_patch(patch(goal)).digest

    assert load_patch(patch(goal, expected_revision=5)).digest == first
    assert load_patch(patch(goal, operation_id="other")).digest == first
    assert load_patch(patch(goal, writer="model")).digest != first
    assert load_patch(patch(goal, goal)).digest != first
    other = {"op": "set-goal", "text": "h"}
    assert load_patch(patch(other)).digest != first
