import pytest

from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts, PlacedRecord


@pytest.mark.parametrize("source", ["docs", ""])
def test_placed_record_has_the_key_of_its_candidate(source: str) -> None:
    candidate = Candidate(source=source, kind="rag", record_id="r", text="")

    assert PlacedRecord(source, "r").key == candidate.key


def test_without_a_clock_nothing_is_known_of_time() -> None:
    assert CompileFacts().now is None
