"""The exact search against brute force over every subset of what is needed."""

import random
from collections.abc import Sequence
from itertools import chain, combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.records.candidate import Candidate, Eligibility
from deuz_compiler.records.policy import Overhead, Policy
from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET, SEARCH_EXHAUSTED
from deuz_compiler.selection.engine import Selection, select
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool
from deuz_compiler.selection.search import find_cheapest
from deuz_compiler.selection.tally import Tally

POLICY = Policy(
    budget_tokens=0,
    search="exact",
    overhead=Overhead(block_tokens=3, record_tokens=1, between_tokens=1),
)


NOTHING: frozenset[str] = frozenset()


def record(key: str, identity: str, tokens: int, **fields: object) -> Candidate:
    known = {
        "source": "",
        "kind": "rag",
        "record_id": key,
        "text": key,
        "tokens": tokens,
        "content_identity": identity,
        "requirement": "mandatory",
        **fields,
    }
    return Candidate(**known)  # type: ignore[arg-type]  # Fields of a builder.


def run(
    candidates: Sequence[Candidate],
    tokens: int,
    placed: frozenset[str] = NOTHING,
    **fields: object,
) -> tuple[Pool, Selection]:
    policy = msgspec.structs.replace(POLICY, budget_tokens=tokens, **fields)
    around = Surroundings(placed)
    pool = build_pool(candidates, policy, around=around, estimate=len)
    return pool, select(pool, policy)


def trap() -> list[Candidate]:
    """A pool greedy refuses at 660: the cheap form of A pays for B's dependency."""
    return [
        record("a1", "A", 100, depends_on=("r",)),
        record("a2", "A", 300),
        record("b1", "B", 50, requirement="required", depends_on=("r",)),
        record("r", "R", 500, requirement="discretionary"),
    ]


def test_search_finds_the_bundle_that_greedy_misses() -> None:
    greedy = run(trap(), 660, search="greedy")[1]
    pool, exact = run(trap(), 660)

    assert greedy.refusal is not None
    assert greedy.refusal.reason == INSUFFICIENT_BUDGET
    assert [pool.keys[node] for node in exact.nodes] == ["a1", "b1", "r"]
    assert exact.search is not None
    assert (exact.search.outcome, exact.search.is_complete) == ("found", True)


def test_what_was_found_is_recorded_by_its_classes() -> None:
    decisions = run(trap(), 660)[1].decisions

    assert [
        (d.key, d.stage, d.reason) for d in decisions.values() if d.is_selected
    ] == [
        ("a1", "mandatory", "mandatory"),
        ("r", "mandatory", "dependency"),
        ("b1", "required", "required"),
    ]


def test_group_that_was_found_is_recorded_as_required() -> None:
    group = {"group_id": "g", "is_group_required": True, "requirement": "required"}
    members = [
        record("c1", "C", 10, depends_on=("r",), **group),
        record("c2", "D", 10, **group),
    ]

    selection = run([*trap(), *members], 690)[1]

    assert selection.search is not None
    assert selection.search.outcome == "found"
    assert [selection.decisions[node].stage for node in selection.nodes] == [
        "mandatory",
        "required",
        "required",
        "required",
        "mandatory",
    ]


def test_every_form_tried_is_a_node() -> None:
    selection = run(trap(), 660)[1]

    # b1 is the only form of B and goes first; then a1 enters, and a2 is too dear.
    assert selection.search is not None
    assert (selection.search.nodes, selection.search.limit_nodes) == (3, 20_000)
    limited = run(trap(), 660, search_nodes=2)[1].search
    assert limited is not None
    assert (limited.nodes, limited.is_complete) == (2, False)


def test_deep_closures_end_the_search_before_its_nodes_do() -> None:
    # Every form has a chain of its own of 40 records.
    chains = [
        record(
            f"{content}{form}-{n:02}",
            f"{content}{form}{n}" if n else content,
            10 - form,
            requirement="discretionary" if n else "mandatory",
            depends_on=(f"{content}{form}-{n + 1:02}",) if n < 39 else (),
        )
        for content in "ABCDEFGHIJKLMNOP"
        for form in (0, 1)
        for n in range(40)
    ]

    search = run(chains, 100_000, search_nodes=400)[1].search

    assert search is not None
    assert search.outcome == "limit"
    # 400 nodes may walk 12 800 records, and each walks 40 to 120.
    assert 12_800 // 120 <= search.nodes <= 12_800 // 40
    assert not search.is_complete


def test_forms_that_all_share_a_deep_closure_end_it_amid_their_pricing() -> None:
    forms = [record(f"f{n:03}", "F", 1, depends_on=("k000",)) for n in range(200)]
    chain = [
        record(
            f"k{n:03}",
            f"k{n}",
            1,
            requirement="discretionary",
            depends_on=(f"k{n + 1:03}",) if n < 199 else (),
        )
        for n in range(200)
    ]

    selection = run([*forms, *chain], 10_000, search_nodes=400)[1]

    # 400 nodes may walk 12 800 records; the forms alone are 200 times 201.
    assert selection.refusal is None
    assert selection.search is not None
    assert (selection.search.outcome, selection.search.nodes) == ("limit", 0)


def test_cheapest_form_is_tried_first_and_rules_the_dearer_ones_out() -> None:
    forms = [
        record(f"{content}{n}", content, tokens)
        for content in "AB"
        for n, tokens in ((1, 20), (2, 10))
    ]
    pool = build_pool(forms, POLICY, around=Surroundings(), estimate=len)

    found = find_cheapest(Tally(pool, 1_000), limit_nodes=99, best=None)

    # a2, b2; then b1 and a1 are tried and can no longer be better.
    assert found.units == (("mandatory", (1,)), ("mandatory", (3,)))
    assert (found.nodes, found.is_complete) == (4, True)


@pytest.mark.parametrize("requirement", ["discretionary", "mandatory"])
def test_where_nothing_could_cost_less_nothing_is_tried(requirement: str) -> None:
    selection = run([record("a", "A", 9, requirement=requirement)], 20)[1]

    assert selection.search is not None
    assert (selection.search.outcome, selection.search.nodes) == ("confirmed", 0)


def test_search_proves_that_no_bundle_exists() -> None:
    selection = run(trap(), 657)[1]

    assert selection.refusal is not None
    assert selection.refusal.reason == INSUFFICIENT_BUDGET
    assert selection.search is not None
    assert (selection.search.outcome, selection.search.is_complete) == ("none", True)


def test_search_confirms_a_greedy_base_that_is_the_cheapest() -> None:
    selection = run([record("a1", "A", 10), record("a2", "A", 20)], 100)[1]

    assert selection.search is not None
    assert selection.search.outcome == "confirmed"


def test_search_replaces_a_greedy_base_that_is_not_the_cheapest() -> None:
    pool, selection = run(trap(), 2_000)

    assert "a1" in [pool.keys[node] for node in selection.nodes]
    assert selection.search is not None
    assert selection.search.outcome == "found"


@pytest.mark.parametrize(("nodes", "outcome"), [(1, "limit"), (50, "found")])
def test_node_limit_ends_the_search_and_says_so(nodes: int, outcome: str) -> None:
    selection = run(trap(), 660, search_nodes=nodes)[1]

    assert selection.search is not None
    assert selection.search.outcome == outcome
    assert selection.search.nodes <= nodes
    assert selection.search.is_complete == (outcome == "found")
    exhausted = selection.refusal and selection.refusal.reason == SEARCH_EXHAUSTED
    assert bool(exhausted) == (outcome == "limit")


def test_need_may_be_met_by_another_class_that_comes_along() -> None:
    # The only form of A is blocked, but B brings a form of it.
    pool, selection = run(
        [
            record("a1", "A", 1, depends_on=("bad",)),
            record("a9", "A", 5, requirement="discretionary"),
            record("b1", "B", 1, depends_on=("a9",)),
            record(
                "bad",
                "X",
                1,
                requirement="discretionary",
                scope=Eligibility(is_eligible=False),
            ),
        ],
        100,
    )

    assert [pool.keys[node] for node in selection.nodes] == ["b1", "a9"]


def test_need_that_nothing_brings_along_is_not_met() -> None:
    bad = record(
        "bad", "X", 1, requirement="discretionary", scope=Eligibility(is_eligible=False)
    )
    selection = run(
        [
            record("a1", "A", 1, depends_on=("bad",)),
            record("a9", "A", 5, requirement="discretionary"),
            bad,
        ],
        100,
    )[1]

    assert selection.refusal is not None
    assert selection.search is not None
    assert selection.search.outcome == "none"


def test_need_that_came_along_is_not_chosen_again() -> None:
    # Greedy goes by identity and takes b1 first, which then keeps a from its own form.
    forms = [
        record("a", "Z", 5, depends_on=("b2",)),
        record("b1", "B", 1),
        record("b2", "B", 9),
    ]

    assert run(forms, 100, search="greedy")[1].refusal is not None
    pool, selection = run(forms, 100)
    assert [pool.keys[node] for node in selection.nodes] == ["a", "b2"]


def test_many_needs_do_not_exhaust_the_stack() -> None:
    forms = [
        record(f"{n}-{form}", f"c{n}", 1 + form)
        for n in range(1_500)
        for form in (0, 1)
    ]

    selection = run(forms, 1_000_000, search_nodes=4_000)[1]

    assert len(selection.nodes) == 1_500


# Its own member is dearer than b, or needs b and so can never enter.
@pytest.mark.parametrize(("tokens", "wanted"), [(8, ()), (7, ("b",))])
def test_group_owes_only_what_is_not_placed(
    tokens: int, wanted: tuple[str, ...]
) -> None:
    group = {"group_id": "g", "is_group_required": True, "requirement": "required"}
    members = [
        record("a", "X", tokens, depends_on=wanted, **group),
        record("z", "Z", 9, **group),
    ]
    other = record("b", "X", 6, requirement="required")

    pool, selection = run([*members, other], 99, frozenset({"z"}))

    assert [pool.keys[node] for node in selection.nodes] == ["b"]


def test_block_alone_may_be_too_dear_and_then_no_bundle_exists() -> None:
    refused, fitting = (run([], n, empty_block="rendered")[1] for n in (2, 3))

    assert refused.refusal is not None
    assert refused.search is not None
    assert refused.search.outcome == "none"
    assert fitting.search is not None
    assert (fitting.search.outcome, fitting.tokens) == ("confirmed", 3)


# Brute force.

CONTENTS = "ABC"


def cheapest(
    candidates: Sequence[Candidate], placed: frozenset[str] = NOTHING
) -> int | None:
    """Return the least declared cost of a legal set, or None: every subset tried."""
    by_key = {candidate.key: candidate for candidate in candidates}
    asked = [c.key for c in candidates if c.requirement in {"mandatory", "required"}]
    costs = [
        rendered([by_key[key] for key in closure])
        for chosen in subsets(asked)
        if is_legal(by_key, closure := closed(by_key, chosen, placed), placed)
    ]
    return min(costs, default=None)


def subsets(keys: Sequence[str]) -> chain[tuple[str, ...]]:
    return chain.from_iterable(combinations(keys, n) for n in range(len(keys) + 1))


def closed(
    by_key: dict[str, Candidate], keys: Sequence[str], placed: frozenset[str]
) -> frozenset[str]:
    found: set[str] = set()
    wanted = list(keys)
    while wanted:
        key = wanted.pop()
        if key not in found and key not in placed:
            found.add(key)
            wanted.extend(by_key[key].depends_on)
            if by_key[key].group_id:
                wanted.extend(k for k, c in by_key.items() if c.group_id)
    return frozenset(found)


def is_legal(
    by_key: dict[str, Candidate], keys: frozenset[str], placed: frozenset[str]
) -> bool:
    contents = [by_key[key].content_identity for key in keys]
    contents += {by_key[key].content_identity for key in placed}
    if len(set(contents)) < len(contents):
        return False
    if not all(by_key[key].scope.is_eligible for key in keys):
        return False
    for candidate in by_key.values():
        is_ignored = (
            candidate.requirement == "required" and not candidate.scope.is_eligible
        )
        # A required record whose own gate fails is left out, not refused; but a group
        # stays a need while any member is eligible.
        is_in = candidate.key in placed
        if candidate.requirement == "discretionary" or is_ignored or is_in:
            continue
        group = [c for c in by_key.values() if candidate.group_id and c.group_id]
        for need in (
            group if candidate.requirement == "required" and group else [candidate]
        ):
            if need.content_identity not in contents:
                return False
    return True


def rendered(chosen: Sequence[Candidate]) -> int:
    if not chosen:
        return 0
    return 3 + sum((c.tokens or 0) + 1 for c in chosen) + len(chosen) - 1


def drawn(chance: random.Random) -> tuple[list[Candidate], frozenset[str]]:
    """Draw a small pool without hypothesis: thousands of them in a few seconds."""
    keys = [f"k{n}" for n in range(chance.randint(2, 7))]
    classes = ["mandatory", "required", "discretionary"]
    group_class = chance.choice(classes)
    found = []
    for key in keys:
        in_group = chance.random() < 0.2
        found.append(
            record(
                key,
                chance.choice([*CONTENTS, key]),
                chance.randint(0, 9),
                requirement=group_class if in_group else chance.choice(classes),
                depends_on=tuple(chance.sample(keys, chance.choice([0, 0, 1, 2]))),
                group_id="g" if in_group else None,
                is_group_required=in_group,
                scope=Eligibility(is_eligible=chance.random() < 0.9),
            )
        )
    return found, frozenset([key for key in keys if chance.random() < 0.1])


@given(chance=st.randoms(use_true_random=False), tokens=st.integers(0, 60))
def test_search_agrees_with_brute_force(chance: random.Random, tokens: int) -> None:
    candidates, placed = drawn(chance)
    least = cheapest(candidates, placed)

    selection = run(candidates, tokens, placed, threshold=1.0)[1]

    assert selection.search is not None
    assert selection.search.is_complete
    if least is None or least > tokens:
        assert selection.refusal is not None
        assert selection.search.outcome == "none"
    else:
        assert selection.refusal is None
        assert selection.tokens == least


def test_greedy_and_exact_stand_the_test_of_thousands_of_pools() -> None:
    chance = random.Random(4)  # Any seed will do; this one makes the run repeatable.
    rescued = proved = cheaper = 0
    for _ in range(5_000):
        candidates, placed = drawn(chance)
        tokens = chance.randint(0, 40)
        least = cheapest(candidates, placed)
        greedy = run(candidates, tokens, placed, threshold=1.0, search="greedy")[1]
        exact = run(candidates, tokens, placed, threshold=1.0)[1]

        is_possible = least is not None and least <= tokens
        assert (exact.refusal is None) == is_possible, candidates
        if least is None or least > tokens:
            # What greedy releases is always legal, so here it must refuse too.
            assert greedy.refusal is not None, candidates
            proved += 1
            continue
        assert exact.tokens == least, candidates
        assert greedy.refusal is not None or greedy.tokens >= least, candidates
        rescued += greedy.refusal is not None
        cheaper += greedy.refusal is None and greedy.tokens > least

    assert min(rescued, proved, cheaper) >= 20
