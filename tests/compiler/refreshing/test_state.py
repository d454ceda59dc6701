import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.refreshing.state import (
    Placement,
    RefreshState,
    new_state,
    read_state,
    write_state,
)


def placement(step: int, record_id: str, revision: str = "1") -> Placement:
    return Placement(
        step=step,
        source="docs",
        record_id=record_id,
        revision=revision,
        digest=f"sha256:{record_id}{revision}",
    )


def faults_of(payload: bytes) -> tuple[str, ...]:
    with pytest.raises(MalformedInput) as caught:
        read_state(payload)
    return caught.value.faults


def test_new_conversation_remembers_nothing() -> None:
    state = new_state()

    assert (state.version, state.passes, state.last_step) == (1, 0, None)
    assert (state.placements, state.task, state.package) == ((), None, "")


def test_placement_is_named_as_its_record_is() -> None:
    placed = placement(1, "a")

    assert placed.key == "docs/a"
    assert placed.placed == PlacedRecord("docs", "a", "1", "sha256:a1")


def test_of_one_record_only_the_latest_placement_counts() -> None:
    both = (placement(1, "a", "1"), placement(1, "b"), placement(2, "a", "2"))

    latest = RefreshState(version=1, placements=both).latest

    assert [(p.record_id, p.revision) for p in latest] == [("a", "2"), ("b", "1")]


@given(
    passes=st.integers(0, 9),
    step=st.integers(0, 99),
    task=st.none() | st.text(st.characters(codec="utf-8"), max_size=5),
    flags=st.tuples(st.booleans(), st.booleans()),
    names=st.lists(st.sampled_from("abc"), max_size=4),
)
def test_state_read_again_is_the_same(
    passes: int,
    step: int,
    task: str | None,
    flags: tuple[bool, bool],
    names: list[str],
) -> None:
    state = RefreshState(
        version=1,
        passes=passes,
        last_step=step,
        task=task,
        is_requested=flags[0],
        is_redacted=flags[1],
        placements=tuple(placement(n, name) for n, name in enumerate(names)),
        package="sha256:00",
    )

    assert read_state(write_state(state)) == state
    assert json.loads(write_state(state))["version"] == 1


def test_every_fault_is_listed() -> None:
    payload = json.dumps(
        {
            "passes": -1,
            "last_step": "3",
            "spent": 2,
            "placements": [{"step": 1}, {"step": -1, "source": "s", "record_id": "r"}],
        }
    ).encode()

    assert faults_of(payload) == (
        "placements[0]: source is missing",
        "placements[0]: record_id is missing",
        "placements[1]: step: is too small (allowed: 0 or more)",
        "state: unknown field spent",
        "state: version is missing",
        "state: passes: is too small (allowed: 0 or more)",
        "state: last_step: is not a whole number or null",
    )


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b"[]", "state: not an object"),
        (
            b'{"version":2}',
            "state: version: is not one of the allowed words (allowed: 1)",
        ),
        (b'{"version":1,"placements":{}}', "placements: not a list"),
        (b'{"version":1,"passes":1}', "state: passes without a last_step"),
    ],
)
def test_what_is_no_state_is_refused(payload: bytes, fault: str) -> None:
    assert faults_of(payload) == (fault,)


def test_text_that_is_no_json_is_one_fault() -> None:
    (fault,) = faults_of(b"")

    assert fault.startswith("state: not JSON")
