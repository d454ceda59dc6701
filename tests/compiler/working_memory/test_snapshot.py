import json

import msgspec
import pytest

from deuz_compiler.errors import MalformedInput
from deuz_compiler.working_memory.snapshot import (
    MAX_ITEMS,
    MAX_REMEMBERED,
    MAX_SNAPSHOT_BYTES,
    MAX_SOURCES,
    MAX_TEXT_LENGTH,
    Applied,
    Item,
    Snapshot,
    SourceRef,
    TaskList,
    read_snapshot,
    size_bytes,
    write_snapshot,
)


def item(name: str, **fields: object) -> Item:
    known = {"text": "t", "writer": "host", "revision": 1, "changed_at": 5.0, **fields}
    return Item(id=name, **known)  # type: ignore[arg-type]  # Builder.


FULL = Snapshot(
    version=1,
    scope="acme/build",
    revision=3,
    goal=item("goal", text="Make the build green."),
    constraints=(item("constraints-0-0"),),
    tasks=TaskList(2, (item("t1", status="open"),), "t1"),
    decisions=(item("decisions-1-0", status="accepted", detail="why"),),
    questions=(item("questions-1-0", status="open"),),
    attempts=(item("attempts-1-0", status="failed", writer="model"),),
    hypotheses=(item("hypotheses-1-0", status="proposed"),),
    observations=(
        item("observations-1-0", revision=3, sources=(SourceRef("tool", "call-7"),)),
    ),
    applied=(Applied("op-1", "sha256:00", 1, ("t1",)),),
)


def faults_of(payload: bytes) -> tuple[str, ...]:
    with pytest.raises(MalformedInput) as caught:
        read_snapshot(payload)
    return caught.value.faults


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(write_snapshot(FULL)), **fields}).encode()


def raw_items(count: int, **fields: object) -> list[dict[str, object]]:
    return [
        {"id": f"i{n}", "text": "t", "writer": "host", "revision": 0, "changed_at": 1.0}
        | fields
        for n in range(count)
    ]


def test_snapshot_read_again_is_the_same() -> None:
    assert read_snapshot(write_snapshot(FULL)) == FULL


def test_snapshot_is_plain_json_with_its_version() -> None:
    plain = json.loads(write_snapshot(FULL))

    assert plain["version"] == 1
    assert plain["tasks"]["active_task_id"] == "t1"
    assert plain["observations"][0]["sources"] == [{"kind": "tool", "ref": "call-7"}]


def test_what_is_left_out_is_empty() -> None:
    snapshot = read_snapshot(b'{"version":1,"scope":"a"}')

    assert snapshot == Snapshot(version=1, scope="a")


def test_active_task_is_found_by_its_id_or_there_is_none() -> None:
    assert FULL.tasks.active == FULL.tasks.items[0]
    assert TaskList(1, FULL.tasks.items).active is None


def test_lists_go_by_name() -> None:
    assert FULL.items("tasks") == FULL.tasks.items
    assert FULL.items("attempts") == FULL.attempts


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"[]", "snapshot: not an object"),
        (b'{"version":1,"scope":"a","tasks":[]}', "tasks: not an object"),
        (b'{"version":1,"scope":"a","goals":[]}', "snapshot: unknown field goals"),
        (b'{"version":1,"scope":"a","decisions":{}}', "decisions: not a list"),
        (
            b'{"version":2,"scope":"a"}',
            "snapshot: version: is not one of the allowed words (allowed: 1)",
        ),
        (b'{"scope":"a"}', "snapshot: version is missing"),
    ],
)
def test_other_shapes_are_refused(payload: bytes, fault: str) -> None:
    assert faults_of(payload) == (fault,)


def test_text_that_is_no_json_is_one_fault() -> None:
    (fault,) = faults_of(b"{")

    assert fault.startswith("snapshot: not JSON")


def test_faults_of_all_items_are_listed_at_once() -> None:
    payload = changed(
        revision=-1,
        decisions=[{"id": "no blanks", "text": " ", "x": 1}],
        tasks={"items": [{"id": 7}], "list_revision": "2"},
    )

    faults = faults_of(payload)

    assert "decisions[0]: unknown field x" in faults
    assert "decisions[0]: writer is missing" in faults
    assert any(fault.startswith("decisions[0]: id:") for fault in faults)
    assert any(fault.startswith("decisions[0]: text:") for fault in faults)
    assert "tasks[0]: id: is not text" in faults
    assert "tasks: list_revision: is not a whole number" in faults
    assert any(fault.startswith("snapshot: revision:") for fault in faults)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"decisions": raw_items(1, status="maybe")},
            "decisions[0]: status is not one of: accepted, proposed, reverted",
        ),
        (
            {"constraints": raw_items(1, status="open")},
            "constraints[0]: status is not one of: empty",
        ),
        (
            {"goal": raw_items(1, status="open")[0]},
            "goal: status is not one of: empty",
        ),
        (
            {"goal": raw_items(1, revision=4)[0]},
            "goal: revision is newer than the snapshot's",
        ),
        (
            {"observations": raw_items(2, id="same")},
            "observations[1]: id is given twice",
        ),
        (
            {"constraints": raw_items(MAX_ITEMS["constraints"] + 1)},
            "constraints: over 32 items",
        ),
        (
            {"tasks": {"items": [], "active_task_id": "t1"}},
            "tasks: active_task_id is not in the list",
        ),
        (
            {
                "applied": [
                    {"operation_id": f"o{n}", "digest": "", "revision": 0}
                    for n in range(MAX_REMEMBERED + 1)
                ]
            },
            "applied: over 64 operations",
        ),
    ],
)
def test_values_that_types_allow_are_checked_too(
    fields: dict[str, object], fault: str
) -> None:
    assert faults_of(changed(**fields)) == (fault,)


def test_snapshot_over_its_size_is_refused() -> None:
    large = raw_items(MAX_ITEMS["observations"], text="x" * MAX_TEXT_LENGTH)

    faults = faults_of(changed(observations=large))

    assert faults == (f"snapshot: over {MAX_SNAPSHOT_BYTES} bytes",)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "x" * (MAX_TEXT_LENGTH + 1)},
        {"text": "\n\t "},
        {"detail": "x" * (MAX_TEXT_LENGTH + 1)},
        {"id": "a\n"},
        {"id": "-a"},
        {"id": "a" * 129},
        {"writer": "user"},
        {"changed_at": -1.0},
        {"sources": [{"kind": "rumour", "ref": "x"}]},
        {"sources": [{"kind": "tool", "ref": "x"}] * (MAX_SOURCES + 1)},
    ],
)
def test_item_outside_its_bounds_is_one_fault(fields: dict[str, object]) -> None:
    (fault,) = faults_of(changed(observations=raw_items(1, **fields)))

    assert fault.startswith(f"observations[0]: {next(iter(fields))}")


def test_lists_may_be_full() -> None:
    remembered = [
        {"operation_id": f"o{n}", "digest": "", "revision": 0}
        for n in range(MAX_REMEMBERED)
    ]
    rules = raw_items(MAX_ITEMS["constraints"])

    snapshot = read_snapshot(changed(applied=remembered, constraints=rules))

    assert (len(snapshot.applied), len(snapshot.constraints)) == (64, 32)


def test_remembered_operations_do_not_count_as_size() -> None:
    bare = msgspec.structs.replace(FULL, applied=())

    assert size_bytes(FULL) == size_bytes(bare) == len(write_snapshot(bare))
