import pytest

from deuz_compiler.records.candidate import Candidate
from deuz_compiler.selection.problems import problems_of_record


def problems(record_id: str = "a", /, **fields: object) -> list[str]:
    known = {"source": "s", "kind": "rag", "text": "", "record_id": record_id, **fields}
    candidate = Candidate(**known)  # type: ignore[arg-type]  # Builder.
    return problems_of_record(candidate, candidate.key)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tokens": -1}, "tokens -1 is negative"),
        ({"label_tokens": -2}, "label_tokens -2 is negative"),
        ({"projection_tokens": -3}, "projection_tokens -3 is negative"),
        ({"tokens": 1.5}, "tokens is not a whole number"),
        ({"tokens": "5"}, "tokens is not a whole number"),
        (
            {"requirement": "mandtory"},
            "requirement is not one of mandatory, required, preferred, discretionary",
        ),
        ({"score": 1.1}, "score 1.1 is outside 0 to 1"),
        ({"score": float("nan")}, "score nan is outside 0 to 1"),
        ({"priority": 1_001}, "priority 1001 is outside -1000 to 1000"),
        ({"priority": -1_001}, "priority -1001 is outside -1000 to 1000"),
    ],
)
def test_field_out_of_its_range_is_named(
    fields: dict[str, object], problem: str
) -> None:
    assert problems(**fields) == [problem]


def test_limits_themselves_are_within_the_limits() -> None:
    assert not problems("x" * 256, tokens=0, label_tokens=0, projection_tokens=0)
    assert not problems(score=0.0, priority=1_000)
    assert not problems(score=1.0, priority=-1_000)


@pytest.mark.parametrize("key", ["", "x" * 257])
def test_id_has_1_to_256_characters(key: str) -> None:
    assert problems(key) == ["id is not 1 to 256 characters long"]


@pytest.mark.parametrize("character", ["\n", "\x00", "\x7f", "\x85", "\ud800"])
def test_id_and_source_hold_no_control_character(character: str) -> None:
    told = ["id holds a control character"]

    assert problems(f"a{character}b") == told
    assert problems(source=character) == told


def test_any_other_text_may_be_an_id() -> None:
    # Spaces of all kinds and joiners are no control characters.
    assert not problems("a b\u00a0\u200d\u2028 \U0001f600/é", kind="é", revision="ü")


@pytest.mark.parametrize("field", ["kind", "revision", "digest", "depends_on"])
def test_name_that_is_no_text_is_a_problem(field: str) -> None:
    odd: object = ("b", "\udcff") if field == "depends_on" else "caf\udce9"

    assert problems(**{field: odd}) == [f"{field} holds half a surrogate pair"]


def test_kind_that_is_no_text_is_a_problem_whatever_the_record_depends_on() -> None:
    told = ["kind holds half a surrogate pair"]

    assert problems(kind="\udcff", depends_on=("b",)) == told


@pytest.mark.parametrize("field", ["depends_on", "coverage_keys"])
def test_text_is_not_taken_for_a_list_of_keys(field: str) -> None:
    assert problems(**{field: "abc"}) == [f"{field} is no list of keys"]
