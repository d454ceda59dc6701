from deuz_compiler.working_memory.fill import critical_entries, filling_entries
from deuz_compiler.working_memory.snapshot import Item, Snapshot, TaskList


def item(name: str, status: str = "", revision: int = 1) -> Item:
    return Item(
        id=name, text="t", writer="host", status=status, revision=revision, changed_at=1
    )


def test_goal_constraints_and_active_task_are_critical_in_this_order() -> None:
    snapshot = Snapshot(
        version=1,
        scope="s",
        goal=item("goal"),
        constraints=(item("c2"), item("c1")),
        tasks=TaskList(1, (item("t1", "open"), item("t2", "open")), "t2"),
    )

    critical = [(e.section, e.item.id) for e in critical_entries(snapshot)]
    filling = [(e.section, e.item.id) for e in filling_entries(snapshot)]

    assert critical == [
        ("goal", "goal"),
        ("constraints", "c2"),
        ("constraints", "c1"),
        ("active_task", "t2"),
    ]
    assert filling == [("tasks", "t1")]


def test_empty_memory_has_nothing_to_show() -> None:
    empty = Snapshot(version=1, scope="s")

    assert (critical_entries(empty), filling_entries(empty)) == ((), ())


def test_lists_fill_in_their_order_each_by_status() -> None:
    snapshot = Snapshot(
        version=1,
        scope="s",
        observations=(item("o"),),
        hypotheses=(
            item("h-rejected", "rejected"),
            item("h-proposed", "proposed"),
            item("h-confirmed", "confirmed"),
        ),
        attempts=(
            item("a-succeeded", "succeeded"),
            item("a-abandoned", "abandoned"),
            item("a-failed", "failed"),
            item("a-running", "in-progress"),
        ),
        questions=(
            item("q-dropped", "dropped"),
            item("q-answered", "answered"),
            item("q-open", "open"),
        ),
        decisions=(
            item("d-reverted", "reverted"),
            item("d-proposed", "proposed"),
            item("d-accepted", "accepted"),
        ),
        tasks=TaskList(1, (item("t-done", "done"), item("t-blocked", "blocked"))),
    )

    assert [entry.item.id for entry in filling_entries(snapshot)] == [
        "t-blocked",
        "t-done",
        "d-accepted",
        "d-proposed",
        "d-reverted",
        "q-open",
        "q-answered",
        "a-running",
        "a-failed",
        "a-abandoned",
        "a-succeeded",
        "h-confirmed",
        "h-proposed",
        "h-rejected",
        "o",
    ]


def test_ties_go_to_the_newest_revision_then_to_the_id() -> None:
    snapshot = Snapshot(
        version=1,
        scope="s",
        observations=(
            item("b", revision=2),
            item("x-1-10"),
            item("x-1-9"),
            item("a", revision=2),
            item("c", revision=3),
        ),
    )

    filling = [entry.item.id for entry in filling_entries(snapshot)]

    assert filling == ["c", "a", "b", "x-1-9", "x-1-10"]
