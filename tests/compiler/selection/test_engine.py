"""Laws of a whole selection; optional content against a plain reading of the rules."""

from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate, Eligibility, Requirement
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.records.refusal import REQUIRED_ABSENT, SEARCH_EXHAUSTED
from deuz_compiler.selection.engine import Selection, opened, select
from deuz_compiler.selection.judge import Judge
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool
from deuz_compiler.selection.rounds import play_rounds
from deuz_compiler.selection.shares import Shares
from deuz_compiler.selection.turns import play_turns
from deuz_testing.plain_reading import Reading

PLAIN = Policy(
    budget_tokens=0,
    threshold=0.3,
    ranking=("score", "coverage", "cost"),
    ordering=("role",),
    pricing="declared",
    faults="raise",
)


def record(key: str, tokens: int = 10, **fields: object) -> Candidate:
    known = {
        "source": "",
        "kind": "rag",
        "record_id": key,
        "text": key,
        "tokens": tokens,
        "content_identity": key,
        "score": 0.5,
        **fields,
    }
    return Candidate(**known)  # type: ignore[arg-type]  # Fields of a builder.


def pooled(candidates: Sequence[Candidate], policy: Policy, **around: object) -> Pool:
    surroundings = Surroundings(**around)  # type: ignore[arg-type]  # As above.
    return build_pool(candidates, policy, around=surroundings, estimate=len)


def run(
    candidates: Sequence[Candidate], policy: Policy, **around: object
) -> tuple[Pool, Selection]:
    pool = pooled(candidates, policy, **around)
    return pool, select(pool, policy)


def budget(tokens: int, **fields: object) -> Policy:
    return msgspec.structs.replace(PLAIN, budget_tokens=tokens, **fields)


# Hypothesis: small pools in which everything that can meet does meet.

KEYS = [f"k{number}" for number in range(9)]


@st.composite
def pools(
    draw: st.DrawFn, classes: Sequence[Requirement] = ("preferred", "discretionary")
) -> list[Candidate]:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
    by_group = {group: draw(st.sampled_from(classes)) for group in ("g", "h")}
    found = []
    for key in keys:
        group = draw(st.sampled_from([None, None, None, "g", "h"]))
        own = draw(st.sampled_from(classes))
        found.append(
            record(
                key,
                draw(st.integers(0, 12)),
                kind=draw(st.sampled_from(["rag", "memory"])),
                requirement=own if group is None else by_group[group],
                score=draw(st.sampled_from([0.1, 0.2, 0.5, 0.9])),
                content_identity=draw(st.sampled_from([key, key, "x", "y"])),
                depends_on=tuple(
                    draw(st.lists(st.sampled_from(keys), max_size=2, unique=True))
                ),
                group_id=group,
                is_group_required=group is not None,
                coverage_keys=tuple(
                    draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True))
                ),
                scope=Eligibility(is_eligible=draw(st.integers(0, 9)) > 0),
            )
        )
    return found


FIXED = {"ranking": ("score",)}


@given(
    candidates=pools(),
    tokens=st.integers(0, 60),
    ranking=st.sampled_from([{}, FIXED]),
)
def test_optional_content_enters_as_a_plain_reading_of_the_rules_has_it(
    candidates: list[Candidate], tokens: int, ranking: dict[str, object]
) -> None:
    policy = budget(tokens, **ranking)
    reading = Reading(candidates, policy)
    reading.run()

    pool, selection = run(candidates, policy)

    # A walk that is cut short may see "too dear" before it sees the obstacle.
    blocked = {reasons.DEPENDENCY_BLOCKED: reasons.OVER_BUDGET} if ranking else {}
    fates = {d.key: d.reason for d in selection.decisions.values()}
    assert {key: blocked.get(fate, fate) for key, fate in fates.items()} == {
        key: blocked.get(fate, fate) for key, fate in reading.fate.items()
    }
    assert sorted(pool.keys[node] for node in selection.nodes) == sorted(reading.inside)


@given(candidates=pools(), tokens=st.integers(0, 60), shared=st.booleans())
def test_units_may_be_judged_once_or_in_every_round(
    candidates: list[Candidate], tokens: int, shared: bool
) -> None:
    weights = (Share("rag", 1), Share("memory", 1)) if shared else ()
    policy = budget(tokens, ranking=("score",))
    kept = []
    for play in (play_turns, play_rounds):
        pool = pooled(candidates, policy)
        tally = opened(pool, policy)
        play(Judge(tally, policy, "discretionary"), Shares(weights, tokens))
        kept.append(tally.kept)

    assert kept[0] == kept[1]


def problems(candidates: Sequence[Candidate], keys: Sequence[str]) -> list[str]:
    """Check a bundle by rules of its own: closed, whole, legal, one form each."""
    by_key = {candidate.key: candidate for candidate in candidates}
    found = []
    contents = [by_key[key].content_identity for key in keys]
    if len(set(contents)) < len(contents):
        found.append("content twice")
    for candidate in by_key.values():
        is_in = candidate.key in keys
        if is_in and not candidate.scope.is_eligible:
            found.append("ineligible")
        if is_in and not set(candidate.depends_on) <= set(keys):
            found.append("dependency absent")
        for other in by_key.values():
            if candidate.group_id is None or other.group_id != candidate.group_id:
                continue
            if is_in != (other.key in keys):
                found.append("group halved")
    return found


ANY_CLASS: tuple[Requirement, ...] = (
    "mandatory",
    "required",
    "preferred",
    "discretionary",
)


@given(
    candidates=pools(ANY_CLASS),
    tokens=st.integers(0, 90),
    search=st.sampled_from(["greedy", "exact"]),
    ranking=st.sampled_from([{}, FIXED]),
    overhead=st.builds(
        Overhead, st.integers(0, 5), st.integers(0, 3), st.integers(0, 2)
    ),
)
def test_a_bundle_is_legal_and_within_its_budget_and_everything_is_accounted_for(
    candidates: list[Candidate],
    tokens: int,
    search: str,
    ranking: dict[str, object],
    overhead: Overhead,
) -> None:
    policy = budget(
        tokens, search=search, overhead=overhead, pricing="rendered", **ranking
    )

    pool, selection = run(candidates, policy)

    keys = [pool.keys[node] for node in selection.nodes]
    chosen = [pool.candidates[node] for node in selection.nodes]
    assert problems(candidates, keys) == []
    assert selection.tokens <= tokens
    label = overhead.record_tokens + overhead.between_tokens
    cost = sum((candidate.tokens or 0) + label for candidate in chosen)
    if keys:
        cost += overhead.block_tokens - overhead.between_tokens
    assert selection.tokens == cost
    if selection.refusal is None:
        assert sorted(selection.decisions) == list(range(len(pool)))
        in_trace = [n for n, d in selection.decisions.items() if d.is_selected]
        assert sorted(in_trace) == sorted(selection.nodes)
        for candidate in candidates:
            if candidate.requirement == "mandatory":
                assert candidate.content_identity in [
                    c.content_identity for c in chosen
                ]


@given(candidates=pools(ANY_CLASS), tokens=st.integers(0, 90), seed=st.randoms())
def test_order_of_the_offers_changes_nothing(
    candidates: list[Candidate], tokens: int, seed: object
) -> None:
    shuffled = list(candidates)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # A random.Random of hypothesis.

    first = run(candidates, budget(tokens))[1]
    second = run(shuffled, budget(tokens))[1]

    assert first == second


@given(
    candidates=pools(ANY_CLASS),
    tokens=st.integers(0, 90),
    ranking=st.sampled_from([{}, FIXED]),
)
def test_a_raise_below_the_shortage_changes_no_decision(
    candidates: list[Candidate], tokens: int, ranking: dict[str, object]
) -> None:
    selection = run(candidates, budget(tokens, **ranking))[1]
    shortage = 50 if selection.shortage_tokens is None else selection.shortage_tokens

    raised = run(candidates, budget(tokens + shortage - 1, **ranking))[1]

    assert raised.nodes == selection.nodes
    assert [d.reason for d in raised.decisions.values()] == [
        d.reason for d in selection.decisions.values()
    ]


def test_absent_required_key_refuses_at_once_with_an_empty_trace() -> None:
    selection = run([record("a")], budget(50, required=("ghost", "a", "banshee")))[1]

    assert selection.refusal is not None
    assert selection.refusal.reason == REQUIRED_ABSENT
    assert selection.refusal.blocking == ("banshee", "ghost")
    assert str(selection.refusal).endswith("candidates absent: banshee, ghost")
    assert selection.decisions == {}


def test_ceiling_lets_mandatory_pass_the_budget_and_leaves_nothing_optional() -> None:
    needed = record("need", 60, requirement="mandatory")
    policy = budget(50, ceiling_tokens=100)

    pool, selection = run([needed, record("want", 1)], policy)

    assert [pool.keys[node] for node in selection.nodes] == ["need"]
    assert selection.decisions[1].reason == reasons.OVER_BUDGET


def test_required_tokens_of_a_refusal_are_the_least_total_that_would_fit() -> None:
    needed = [record(key, 30, requirement="mandatory") for key in "ab"]
    overhead = Overhead(block_tokens=7, record_tokens=2, between_tokens=1)
    tight = budget(70, pricing="rendered", overhead=overhead)
    refusal = run(needed, tight)[1].refusal
    assert refusal is not None
    assert refusal.required_tokens == 72

    enough = msgspec.structs.replace(tight, budget_tokens=72)
    assert run(needed, enough)[1].tokens == 72
    assert run(needed, msgspec.structs.replace(tight, budget_tokens=71))[1].refusal


def fates(selection: Selection) -> dict[str, str]:
    return {d.key: d.reason for d in selection.decisions.values()}


def test_preferred_content_comes_before_discretionary_whatever_either_scores() -> None:
    records = (record("a", score=0.9), record("b", score=0.3, requirement="preferred"))

    assert fates(run(records, budget(10))[1]) == {
        "a": reasons.OVER_BUDGET,
        "b": reasons.RANKED,
    }


def test_budget_is_a_ceiling_and_no_target() -> None:
    records = (
        record("note", 150, score=0.8),
        record("long", 400, score=0.15),
        record("longer", 500, score=0.2),
    )

    selection = run(records, budget(3_000))[1]

    assert selection.tokens == 150
    assert fates(selection)["long"] == reasons.BELOW_THRESHOLD


def test_forms_of_optional_content_compete_and_one_enters() -> None:
    records = (
        record("full", 40, score=0.7, content_identity="X"),
        record("short", 5, score=0.9, content_identity="X"),
    )

    assert fates(run(records, budget(100))[1]) == {
        "full": reasons.DUPLICATE_CONTENT,
        "short": reasons.RANKED,
    }


def test_projection_that_is_in_does_not_stand_in_for_a_dependency() -> None:
    records = (
        record("a", 200, score=0.9, projection="short", projection_tokens=5),
        record("b", score=0.5, depends_on=("a",)),
    )

    pool, selection = run(records, budget(100, ranking=("score",)))

    assert fates(selection) == {"a": reasons.RANKED, "b": reasons.DEPENDENCY_BLOCKED}
    assert [pool.keys[node] for node in selection.nodes] == ["a"]
    assert selection.decisions[0].is_projected


def test_dependency_enters_in_full_though_it_has_a_projection() -> None:
    records = (
        record("a", 60, score=0.1, projection="short", projection_tokens=5),
        record("b", score=0.5, depends_on=("a",)),
    )

    selection = run(records, budget(100))[1]

    assert fates(selection) == {"a": reasons.DEPENDENCY, "b": reasons.RANKED}
    assert selection.tokens == 70


def trapped(**fields: object) -> tuple[Pool, Selection]:
    """Run a pool that greedy refuses at 660: a's cheap form pays for what b needs."""
    forms = [
        record("a1", 100, content_identity="A", depends_on=("r",)),
        record("a2", 300, content_identity="A"),
        record("b", 50, depends_on=("r",)),
    ]
    needed = [msgspec.structs.replace(f, requirement="mandatory") for f in forms]
    policy = budget(660, pricing="rendered", **fields)
    return run([*needed, record("r", 500)], policy)


def test_exact_search_replaces_a_greedy_refusal_or_says_that_it_came_to_no_end() -> (
    None
):
    pool, found = trapped(search="exact")
    _, cut_off = trapped(search="exact", search_nodes=1)

    assert [pool.keys[node] for node in found.nodes] == ["a1", "b", "r"]
    assert found.search is not None
    assert found.search.outcome == "found"
    assert cut_off.refusal is not None
    assert cut_off.refusal.reason == SEARCH_EXHAUSTED
    assert cut_off.search is not None
    assert cut_off.search.outcome == "limit"


def test_exact_search_confirms_what_is_cheapest_or_proves_that_nothing_fits() -> None:
    needed = record("a", 10, requirement="mandatory")

    outcomes = [
        run([needed], budget(tokens, pricing="rendered", search="exact"))[1].search
        for tokens in (10, 9)
    ]

    assert [each and each.outcome for each in outcomes] == ["confirmed", "none"]


def test_placed_and_ineligible_records_are_turned_away_first() -> None:
    closed = record("b", scope=Eligibility(is_eligible=False))

    _, selection = run([record("a"), closed], budget(99), placed=frozenset({"a"}))

    assert list(fates(selection).values()) == ["already-placed", "scope-ineligible"]


def test_overrun_that_cannot_be_repaired_refuses() -> None:
    needed = record("a", 10, requirement="mandatory", label_tokens=3)

    refusal = run([needed], budget(12))[1].refusal

    assert refusal is not None
    assert refusal.detail == "rendered 13 exceeds budget 12 with no legal repair"
    assert (refusal.required_tokens, refusal.blocking) == (13, ("a",))
