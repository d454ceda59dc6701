import msgspec

from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.order import ordered
from deuz_compiler.selection.pool import Surroundings, build_pool

POLICY = Policy(budget_tokens=0, roles=("task", "evidence"), sources=("b", "a"))


def order(*candidates: Candidate, **fields: object) -> list[str]:
    policy = msgspec.structs.replace(POLICY, **fields)
    pool = build_pool(candidates, policy, around=Surroundings(), estimate=len)
    return [pool.keys[node] for node in ordered(pool, range(len(pool)), policy)]


def record(source: str, key: str, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", **fields}
    return Candidate(source=source, record_id=key, **known)  # type: ignore[arg-type]  # Builder.


def test_mandatory_stands_first_then_role_then_source_then_id() -> None:
    placed = order(
        record("a", "4", role="evidence"),
        record("a", "3", role="evidence"),
        record("b", "5", role="evidence"),
        record("a", "2", role="task"),
        record("a", "1", role="odd", requirement="mandatory"),
    )

    assert placed == ["a/1", "a/2", "b/5", "a/3", "a/4"]


def test_unknown_roles_and_sources_come_last() -> None:
    placed = order(record("z", "1"), record("a", "1", role="task"), record("a", "1a"))

    assert placed == ["a/1", "a/1a", "z/1"]


def test_relevance_plays_no_part() -> None:
    placed = order(record("a", "1", score=0.1), record("a", "2", score=0.9))

    assert placed == ["a/1", "a/2"]


def test_policy_chooses_the_terms() -> None:
    candidates = (
        record("a", "1", role="evidence", requirement="mandatory"),
        record("a", "2", role="task"),
    )

    assert order(*candidates, ordering=("role",)) == ["a/2", "a/1"]
    assert order(*candidates, ordering=()) == ["a/1", "a/2"]
