import pytest

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
from deuz_compiler.working_memory.draft import (
    FORBIDDEN,
    MEMORY_FULL,
    UNKNOWN_ITEM,
    Draft,
)
from deuz_compiler.working_memory.snapshot import (
    MAX_ITEMS,
    Item,
    Snapshot,
    SourceRef,
    TaskList,
    Writer,
)


def item(name: str, writer: Writer = "host", status: str = "") -> Item:
    return Item(
        id=name, text=name, writer=writer, status=status, revision=1, changed_at=1.0
    )


BASE = Snapshot(
    version=1,
    scope="s",
    revision=4,
    constraints=(item("c"),),
    tasks=TaskList(2, (item("t1", status="open"), item("t2", status="open")), "t2"),
    decisions=(item("mine", "model", "proposed"), item("yours", status="proposed")),
    hypotheses=(item("ruled", "model", "confirmed"),),
    observations=(item("seen", "model"),),
)


def draft(base: Snapshot = BASE, writer: Writer = "host") -> Draft:
    return Draft(base, revision=5, writer=writer, now=9.0)


def after(*actions: Action, base: Snapshot = BASE) -> Snapshot:
    opened = draft(base)
    assert [opened.perform(action) for action in actions] == [None] * len(actions)
    return opened.close()


def test_new_item_is_marked_with_writer_revision_time_and_sources() -> None:
    cited = (SourceRef("tool", "call-1"),)

    (found,) = after(Add(list_name="questions", text="q", sources=cited)).questions

    assert found == Item(
        id="questions-5-0",
        text="q",
        writer="host",
        revision=5,
        changed_at=9.0,
        sources=cited,
    )


def test_ids_count_within_their_list() -> None:
    opened = draft()
    for name in ("attempts", "attempts", "questions"):
        opened.perform(Add(list_name=name, text="x"))

    assert opened.new_ids == ("attempts-5-0", "attempts-5-1", "questions-5-0")


def test_id_that_is_there_already_is_passed_over() -> None:
    base = Snapshot(version=1, scope="s", revision=4, attempts=(item("attempts-5-0"),))

    found = after(Add(list_name="attempts", text="x"), base=base).attempts

    assert [it.id for it in found] == ["attempts-5-0", "attempts-5-1"]


def test_id_of_what_was_taken_out_again_is_not_given_to_something_else() -> None:
    add = Add(list_name="attempts", text="x")
    opened = draft()

    opened.perform(add)
    opened.perform(Remove(("attempts",), "attempts-5-0"))
    opened.perform(add)

    assert opened.new_ids == ("attempts-5-1",)


def test_full_list_takes_no_more() -> None:
    full = tuple(item(f"c{n}") for n in range(MAX_ITEMS["constraints"]))
    opened = draft(Snapshot(version=1, scope="s", constraints=full))

    assert opened.perform(Add(list_name="constraints", text="x")) == MEMORY_FULL


def test_change_keeps_what_it_does_not_give() -> None:
    cited = (SourceRef("tool", "call-1"),)
    first = Change(
        list_name="decisions", id="mine", status="accepted", detail="d", sources=cited
    )
    second = Change(list_name="decisions", id="mine", status="reverted")

    changed, other = after(first, second).decisions

    assert (changed.status, changed.detail, changed.sources) == ("reverted", "d", cited)
    assert (changed.revision, changed.changed_at) == (5, 9.0)
    assert (changed.writer, changed.text) == ("model", "mine")
    assert other is BASE.decisions[1]


@pytest.mark.parametrize(
    ("action", "refused"),
    [
        (Change(list_name="decisions", id="mine", status="accepted"), None),
        (Change(list_name="decisions", id="yours", status="accepted"), FORBIDDEN),
        (Change(list_name="questions", id="mine", status="open"), UNKNOWN_ITEM),
        (Remove(("questions", "decisions"), "mine"), None),
        (Remove(("decisions",), "yours"), FORBIDDEN),
        (Remove(("hypotheses",), "ruled"), FORBIDDEN),
        (Remove(("observations",), "seen"), None),
        (Remove(("questions", "attempts"), "mine"), UNKNOWN_ITEM),
        (SetActiveTask(id="t1"), None),
        (SetActiveTask(id=None), None),
        (SetActiveTask(id="t3"), UNKNOWN_ITEM),
    ],
)
def test_model_changes_only_its_own_items(action: Action, refused: str | None) -> None:
    opened = draft(writer="model")

    assert opened.perform(action) == refused
    if refused:
        assert opened.close() == Draft(BASE, revision=5, writer="host", now=0.0).close()


def test_host_takes_out_whatever_it_likes() -> None:
    left = after(Remove(("hypotheses",), "ruled"), Remove(("decisions",), "mine"))

    assert (left.hypotheses, [it.id for it in left.decisions]) == ((), ["yours"])


def test_goal_is_set_and_cleared() -> None:
    goal = after(SetGoal(text="g")).goal

    assert goal is not None
    assert (goal.id, goal.text, goal.revision) == ("goal", "g", 5)
    assert after(SetGoal(text="g"), SetGoal(text=None)).goal is None


def test_new_plan_keeps_the_active_task_it_still_has() -> None:
    tasks = (TaskInput(title="new"), TaskInput(id="t2", title="renamed"))

    plan = after(SetTasks(tasks=tasks)).tasks

    assert (plan.list_revision, plan.active_task_id) == (3, "t2")
    assert [task.id for task in plan.items] == ["tasks-5-0", "t2"]
    assert plan.items[1].revision == 5


def test_new_plan_without_the_active_task_has_none() -> None:
    assert after(SetTasks(tasks=())).tasks == TaskList(3, (), None)


def test_new_plan_may_name_its_active_task() -> None:
    tasks = (TaskInput(id="t1", title="t1"), TaskInput(id="t2", title="t2"))

    plan = after(SetTasks(tasks=tasks, active_task_id="t1")).tasks

    assert plan.active_task_id == "t1"
    assert plan.items == BASE.tasks.items
    assert [task.revision for task in plan.items] == [1, 1]


def test_plan_whose_active_task_is_not_in_it_is_refused() -> None:
    opened = draft()

    plan = SetTasks(tasks=(TaskInput(id="t1", title="t"),), active_task_id="t2")

    assert opened.perform(plan) == UNKNOWN_ITEM
    assert opened.close().tasks == BASE.tasks


def test_made_id_of_a_task_is_never_that_of_another_task() -> None:
    first = SetTasks(tasks=(TaskInput(title="a"),))
    second = SetTasks(tasks=(TaskInput(title="b"), TaskInput(id="tasks-5-2", title="")))

    plan = after(first, second).tasks

    assert [task.id for task in plan.items] == ["tasks-5-1", "tasks-5-2"]


def test_base_stays_as_it_was() -> None:
    before = repr(BASE)

    after(Add(list_name="decisions", text="x"), Remove(("observations",), "seen"))

    assert repr(BASE) == before
