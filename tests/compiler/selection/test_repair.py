import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Overhead, Policy
from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET
from deuz_compiler.selection.engine import Selection, select
from deuz_compiler.selection.pool import Surroundings, build_pool
from deuz_compiler.selection.repair import rendered_tokens
from deuz_compiler.selection.tally import Tally

POLICY = Policy(
    budget_tokens=0,
    pricing="declared",
    overhead=Overhead(block_tokens=4, record_tokens=3, between_tokens=1),
    ordering=(),
)


def want(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", "content_identity": key, **fields}
    return Candidate(source="", record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def run(*candidates: Candidate, tokens: int, **fields: object) -> Selection:
    policy = msgspec.structs.replace(POLICY, budget_tokens=tokens, **fields)
    pool = build_pool(candidates, policy, around=Surroundings(), estimate=len)
    return select(pool, policy)


def kept(selection: Selection) -> list[str]:
    return [selection.decisions[node].key for node in selection.nodes]


def dropped(selection: Selection) -> list[str]:
    return [
        decision.key
        for decision in selection.decisions.values()
        if decision.reason == reasons.RENDER_OVERRUN
    ]


def test_rendered_cost_counts_header_labels_and_what_stands_between() -> None:
    policy = msgspec.structs.replace(POLICY, budget_tokens=770)
    records = [want("a", 60), want("b", 40), want("c", 20), want("d", 650)]
    pool = build_pool(records, policy, around=Surroundings(), estimate=len)
    tally = Tally(pool, 770)

    assert tally.cost(range(4)) == 770
    assert rendered_tokens(tally, range(4), policy) == 789
    assert rendered_tokens(tally, (), policy) == 0
    always = msgspec.structs.replace(policy, empty_block="rendered")
    assert rendered_tokens(tally, (), always) == 4


def test_overrun_drops_the_last_discretionary_record_and_keeps_its_figures() -> None:
    selection = run(want("a"), want("b"), tokens=30)

    assert kept(selection) == ["a"]
    assert dropped(selection) == ["b"]
    assert selection.decisions[1].cost_tokens == 10
    assert selection.decisions[1].before_tokens == 20
    assert selection.decisions[1].position is None
    assert selection.decisions[1].is_selected is False
    assert selection.tokens == 17


def test_overrun_that_just_fits_drops_nothing() -> None:
    selection = run(want("a"), want("b"), tokens=31)

    assert kept(selection) == ["a", "b"]
    assert selection.tokens == 31


def test_record_that_another_needs_is_dropped_after_it() -> None:
    records = (want("a", depends_on=("z",)), want("z"))

    assert kept(run(*records, tokens=30)) == ["z"]
    both = run(*records, tokens=30, overhead=Overhead(block_tokens=40))
    assert (kept(both), both.refusal) == ([], None)


def test_record_that_two_need_is_dropped_after_both() -> None:
    records = (want("a", depends_on=("z",)), want("b", depends_on=("z",)), want("z"))

    # Three cost 45, two 31, one 17.
    assert kept(run(*records, tokens=31)) == ["a", "z"]
    assert kept(run(*records, tokens=30)) == ["z"]


def test_dependency_of_a_higher_class_stays() -> None:
    selection = run(
        want("a", depends_on=("z",)), want("z", requirement="preferred"), tokens=27
    )

    assert kept(selection) == ["z"]


def test_group_is_dropped_whole() -> None:
    group = {"group_id": "g", "is_group_required": True}
    selection = run(want("a"), want("b", **group), want("c", **group), tokens=35)

    assert kept(selection) == ["a"]
    assert dropped(selection) == ["b", "c"]


def test_record_before_a_dropped_group_may_follow_it() -> None:
    group = {"group_id": "g", "is_group_required": True}
    dear = Overhead(block_tokens=40)

    selection = run(
        want("a"), want("b", **group), want("c", **group), tokens=35, overhead=dear
    )

    assert dropped(selection) == ["a", "b", "c"]


def test_group_that_something_else_needs_is_not_loose() -> None:
    group = {"group_id": "g", "is_group_required": True}
    selection = run(
        want("a", requirement="preferred", depends_on=("b",)),
        want("b", **group),
        want("c", **group),
        tokens=35,
    )

    assert selection.refusal is not None
    assert selection.refusal.reason == INSUFFICIENT_BUDGET
    assert selection.refusal.blocking == ("a", "b", "c")
    assert selection.refusal.detail == (
        "rendered 45 exceeds budget 35 with no legal repair"
    )
    assert selection.refusal.required_tokens == 45


def test_mutual_dependencies_are_not_loose() -> None:
    selection = run(
        want("a", depends_on=("b",)), want("b", depends_on=("a",)), tokens=25
    )

    assert selection.refusal is not None


def test_nothing_to_drop_refuses() -> None:
    selection = run(want("a", requirement="mandatory"), tokens=16)

    assert selection.refusal is not None
    assert selection.nodes == ()


def test_repair_may_be_switched_off() -> None:
    selection = run(want("a"), want("b"), tokens=27, repair="none")

    assert selection.refusal is not None


def test_header_alone_may_be_too_dear() -> None:
    assert run(tokens=3, empty_block="rendered").refusal is not None
    assert run(tokens=4, empty_block="rendered").tokens == 4
    priced = run(tokens=3, empty_block="rendered", pricing="rendered").refusal
    assert priced is not None
    assert priced.required_tokens == 4
    assert run(tokens=3).refusal is None


def test_record_freed_twice_is_dropped_once() -> None:
    group = {"group_id": "g", "is_group_required": True}
    records = (want("a", depends_on=("c",)), want("b", depends_on=("d",)))
    freed = (want("c", **group), want("d", **group))

    assert kept(run(*records, *freed, tokens=50)) == ["a", "c", "d"]
    none = run(*records, *freed, tokens=50, overhead=Overhead(block_tokens=60))
    assert kept(none) == []
    assert sorted(dropped(none)) == ["a", "b", "c", "d"]


def test_record_that_was_freed_goes_before_those_that_stand_before_it() -> None:
    records = (want("k"), want("l"), want("n", depends_on=("l",)))

    # Three cost 45, two 31, one 17.
    assert dropped(run(*records, tokens=30)) == ["l", "n"]
