import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Policy, Share
from deuz_compiler.selection.judge import Judge
from deuz_compiler.selection.pool import Surroundings, build_pool
from deuz_compiler.selection.shares import Shares
from deuz_compiler.selection.tally import Tally
from deuz_compiler.selection.turns import play_turns

POLICY = Policy(budget_tokens=0, pricing="declared")
HALVES = (Share("memory", 1), Share("rag", 1))


def want(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", "content_identity": key, **fields}
    return Candidate(source="", record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def play(
    *candidates: Candidate, tokens: int, shares: tuple[Share, ...] = ()
) -> tuple[dict[str, str], Tally]:
    policy = msgspec.structs.replace(POLICY, budget_tokens=tokens, shares=shares)
    pool = build_pool(candidates, policy, around=Surroundings(), estimate=len)
    tally = Tally(pool, tokens)
    play_turns(Judge(tally, policy, "discretionary"), Shares(shares, tokens))
    return {d.key: d.reason for d in tally.decisions.values()}, tally


def test_priority_counts_first_then_score_then_id() -> None:
    fates, _ = play(
        want("a", score=0.9),
        want("b", score=0.1, priority=1),
        want("c", score=0.9),
        tokens=20,
    )

    assert fates == {
        "a": reasons.RANKED,
        "b": reasons.RANKED,
        "c": reasons.OVER_BUDGET,
    }


def test_smaller_record_behind_one_that_does_not_fit_still_enters() -> None:
    fates, _ = play(want("a", 30, score=0.9), want("b", 20, score=0.1), tokens=25)

    assert fates == {"a": reasons.OVER_BUDGET, "b": reasons.RANKED}


def test_dependency_that_came_in_before_is_not_paid_again() -> None:
    fates, tally = play(
        want("a", 10, score=0.9, depends_on=("tool",)),
        want("b", 10, score=0.8, depends_on=("tool",)),
        want("tool", 300),
        tokens=320,
    )

    assert fates["b"] == reasons.RANKED
    assert fates["tool"] == reasons.DEPENDENCY
    assert tally.remaining == 0


def test_share_left_unused_goes_to_others_and_says_so() -> None:
    fates, _ = play(
        want("m", 10, kind="memory", score=0.1),
        want("r1", 50, score=0.9),
        want("r2", 40, score=0.8),
        want("r3", 10, score=0.7),
        tokens=100,
        shares=HALVES,
    )

    assert fates == {
        "m": reasons.RANKED,
        "r1": reasons.RANKED,
        "r2": reasons.REALLOCATED,
        "r3": reasons.OVER_BUDGET,
    }


def test_share_protects_a_kind_from_better_scores_of_another() -> None:
    fates, _ = play(
        want("m", 50, kind="memory", score=0.1),
        want("r1", 50, score=0.9),
        want("r2", 50, score=0.9),
        tokens=100,
        shares=HALVES,
    )

    assert fates == {
        "m": reasons.RANKED,
        "r1": reasons.RANKED,
        "r2": reasons.OVER_BUDGET,
    }


def test_share_that_says_no_tells_what_was_short() -> None:
    records = (want("m", 41, kind="memory"), want("r", 60))

    # With 1 more both fit; with 120 in all each is in by its own share.
    assert play(*records, tokens=100, shares=HALVES)[1].shortage == 1
    fates, tally = play(*records, tokens=101, shares=HALVES)
    assert fates["r"] == reasons.REALLOCATED
    assert tally.shortage == 19


def test_content_that_is_in_by_another_form_has_no_turn() -> None:
    fates, _ = play(
        want("a", score=0.9, content_identity="X"),
        want("b", score=0.8, content_identity="X"),
        tokens=100,
    )

    assert fates == {"a": reasons.RANKED}


def test_unit_is_charged_to_its_own_kind_with_all_it_brings_along() -> None:
    # The tool is of kind memory, but rag asked for it: memory still has its half.
    fates, _ = play(
        want("r", 10, score=0.9, depends_on=("tool",)),
        want("tool", 40, kind="memory", score=0.1),
        want("m", 50, kind="memory", score=0.2),
        want("q", 1, score=0.3),
        tokens=101,
        shares=HALVES,
    )

    assert fates == {
        "r": reasons.RANKED,
        "tool": reasons.DEPENDENCY,
        "m": reasons.RANKED,
        "q": reasons.REALLOCATED,
    }
