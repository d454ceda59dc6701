import pytest

from deuz_compiler.records.candidate import (
    ELIGIBLE,
    REQUIREMENTS,
    Candidate,
    keys_of,
)


def test_four_fields_make_a_neutral_candidate() -> None:
    candidate = Candidate(source="docs", kind="rag", record_id="a#1", text="hello")

    assert candidate.requirement == "discretionary"
    assert candidate.scope is candidate.freshness is candidate.authority is ELIGIBLE
    assert candidate.tokens is None


@pytest.mark.parametrize(("source", "key"), [("docs", "docs/a#1"), ("", "a#1")])
def test_key_is_source_and_id_or_the_id_alone(source: str, key: str) -> None:
    candidate = Candidate(source=source, kind="rag", record_id="a#1", text="")

    assert candidate.key == key
    assert keys_of([candidate, candidate]) == [key, key]


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_only_the_mandatory_class_is_mandatory(requirement: str) -> None:
    candidate = Candidate(
        source="s",
        kind="k",
        record_id="r",
        text="",
        requirement=requirement,  # type: ignore[arg-type]  # One of the four.
    )

    assert candidate.is_mandatory == (requirement == "mandatory")
