import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Policy, Share
from deuz_compiler.selection.judge import Judge
from deuz_compiler.selection.pool import Surroundings, build_pool
from deuz_compiler.selection.rounds import play_rounds
from deuz_compiler.selection.shares import Shares
from deuz_compiler.selection.tally import Tally

POLICY = Policy(
    budget_tokens=0,
    pricing="declared",
    threshold=0.3,
    ranking=("score", "coverage", "cost"),
)


def want(key: str, tokens: int = 10, /, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": "", "score": 0.5, "content_identity": key, **fields}
    return Candidate(source="", record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def play(
    *candidates: Candidate, tokens: int, shares: tuple[Share, ...] = ()
) -> dict[str, str]:
    policy = msgspec.structs.replace(POLICY, budget_tokens=tokens, shares=shares)
    pool = build_pool(candidates, policy, around=Surroundings(), estimate=len)
    tally = Tally(pool, tokens)
    play_rounds(Judge(tally, policy, "discretionary"), Shares(shares, tokens))
    return {d.key: d.reason for d in tally.decisions.values()}


def test_relevance_outranks_cost() -> None:
    fates = play(
        want("full", 400, score=0.7, content_identity="X"),
        want("pointer", 20, score=0.9, content_identity="X", depends_on=("tool",)),
        want("tool", 650, score=0.1),
        tokens=670,
    )

    assert fates["pointer"] == reasons.RANKED
    assert fates["tool"] == reasons.DEPENDENCY


def test_equal_relevance_goes_to_new_coverage_then_to_the_cheaper() -> None:
    by_keys = play(want("a", 1), want("b", 10, coverage_keys=("k",)), tokens=10)
    by_cost = play(want("a", 10), want("b", 9), tokens=10)

    assert by_keys == {"b": reasons.RANKED, "a": reasons.OVER_BUDGET}
    assert by_cost == {"b": reasons.RANKED, "a": reasons.OVER_BUDGET}


def test_unit_is_turned_away_in_the_round_in_which_it_stops_fitting() -> None:
    fates = play(
        want("a", 50, score=0.9, depends_on=("tool",)),
        want("b", 1, score=0.8, depends_on=("big", "tool")),
        want("big", 45, score=0.7),
        want("tool", 10, score=0.1),
        tokens=105,
    )

    # At first b would cost 56 and fits; after a, it and big cost 46 of 45.
    assert fates["b"] == reasons.OVER_BUDGET
    assert fates["big"] == reasons.RANKED


def test_key_covered_in_an_earlier_round_earns_nothing_more() -> None:
    fates = play(
        want("a", coverage_keys=("k",)),
        want("b", score=0.1, coverage_keys=("k",)),
        want("c", score=0.1, coverage_keys=("j",)),
        tokens=100,
    )

    assert fates == {
        "a": reasons.RANKED,
        "b": reasons.BELOW_THRESHOLD,
        "c": reasons.RANKED,
    }


def test_rank_moves_as_dependencies_come_in() -> None:
    # c is dearer than d until a brings the tool that c needs.
    fates = play(
        want("a", 10, score=0.9, depends_on=("tool",)),
        want("c", 5, depends_on=("tool",)),
        want("d", 20),
        want("tool", 50, score=0.1),
        tokens=84,
    )

    assert fates["c"] == reasons.RANKED
    assert fates["d"] == reasons.OVER_BUDGET


def test_unit_over_its_share_waits_for_what_others_leave() -> None:
    fates = play(
        want("m", 10, kind="memory"),
        want("r1", 50, score=0.9),
        want("r2", 40, score=0.8),
        want("r3", 10, score=0.7),
        tokens=100,
        shares=(Share("memory", 1), Share("rag", 1)),
    )

    assert fates == {
        "m": reasons.RANKED,
        "r1": reasons.RANKED,
        "r2": reasons.REALLOCATED,
        "r3": reasons.OVER_BUDGET,
    }


def test_waiting_unit_whose_content_came_in_meanwhile_is_left_alone() -> None:
    fates = play(
        want(
            "m",
            10,
            kind="memory",
            score=0.1,
            coverage_keys=("k",),
            content_identity="X",
        ),
        want("r", 60, score=0.9, content_identity="X"),
        tokens=100,
        shares=(Share("memory", 1), Share("rag", 1)),
    )

    assert fates == {"m": reasons.RANKED}


def test_unit_that_waits_goes_on_waiting_when_it_becomes_cheaper() -> None:
    # After m has brought the tool, r1 would fit the share of rag; but r2 comes first.
    fates = play(
        want("m", 10, kind="memory", score=0.8, depends_on=("tool",)),
        want("r1", 25, score=0.9, depends_on=("tool",)),
        want("r2", 50, score=0.5),
        want("tool", 30, kind="tools", score=0.1),
        tokens=100,
        shares=(Share("memory", 1), Share("rag", 1)),
    )

    assert fates == {
        "m": reasons.RANKED,
        "r1": reasons.OVER_BUDGET,
        "r2": reasons.RANKED,
        "tool": reasons.DEPENDENCY,
    }


def test_share_that_says_no_tells_what_was_short() -> None:
    shares = (Share("memory", 1), Share("rag", 1))
    policy = msgspec.structs.replace(POLICY, budget_tokens=101, shares=shares)
    records = [want("m", 41, kind="memory"), want("r", 60)]
    pool = build_pool(records, policy, around=Surroundings(), estimate=len)
    tally = Tally(pool, 101)

    play_rounds(Judge(tally, policy, "discretionary"), Shares(shares, 101))

    # Both are in; with 120 each would be in by its own share.
    assert tally.remaining == 0
    assert tally.shortage == 19


def test_other_forms_leave_the_contest_when_one_enters() -> None:
    fates = play(
        want("a", score=0.9, content_identity="X"),
        want("b", score=0.8, content_identity="X"),
        want("c", score=0.7),
        tokens=100,
    )

    assert fates == {"a": reasons.RANKED, "c": reasons.RANKED}
