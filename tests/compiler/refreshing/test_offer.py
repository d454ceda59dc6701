from collections.abc import Callable
from typing import Any

import pytest

from deuz_compiler.canonical import digest_text
from deuz_compiler.compilation import compile_context
from deuz_compiler.placement.block import BlockRecord, render_block
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts, SourceReport
from deuz_compiler.records.policy import Policy
from deuz_compiler.refreshing.decide import (
    Decision,
    RefreshLimits,
    Step,
    forget_records,
    place_step,
    retry_step,
    start_step,
)
from deuz_compiler.refreshing.offer import (
    MAX_QUERY_LENGTH,
    facts_of,
    offered_candidates,
    query_text,
)
from deuz_compiler.refreshing.state import (
    RefreshState,
    new_state,
    read_state,
    write_state,
)
from deuz_compiler.wires.own import SUMMARY_MARKER

BLOCK = '<deuz_context note="n">\nsecret\n</deuz_context>'


def record(record_id: str, text: str, **fields: Any) -> Candidate:
    return Candidate(
        source="docs", kind="rag", record_id=record_id, text=text, **fields
    )


@pytest.mark.parametrize(
    ("user", "title", "query"),
    [
        ("How do I deploy?", "", "How do I deploy?"),
        ("How?", "Deploy billing.", "Deploy billing.\nHow?"),
        ("", "Deploy billing.", "Deploy billing."),
        (" \n", " ", ""),
        (BLOCK, "", ""),
        (f"How?\n{BLOCK}", "", "How?"),
        (f"{SUMMARY_MARKER}\nEarlier things.", "T", "T"),
    ],
)
def test_query_is_the_title_and_what_the_user_wrote(
    user: str, title: str, query: str
) -> None:
    assert query_text(user, task_title=title) == query


def test_query_is_bounded() -> None:
    query = query_text("x" * 5_000, task_title="Title")

    assert len(query) == MAX_QUERY_LENGTH
    assert query.startswith("Title\nxxx")


def decided(**fields: Any) -> Decision:
    return Decision(**{"step": 1, "reason": "initial", **fields})


OPTIONAL = record("a", "a")
MANDATORY = record("m", "m", requirement="mandatory")
OTHER = record("n", "n", requirement="mandatory")


@pytest.mark.parametrize(
    ("takes", "keys"),
    [
        ("all", ["docs/a", "docs/m", "docs/n", "docs/r"]),
        ("mandatory", ["docs/m", "docs/r"]),
        ("none", ["docs/r"]),
    ],
)
def test_what_is_taken_of_the_answers(takes: str, keys: list[str]) -> None:
    decision = decided(
        takes=takes, wanted=("docs/m", "docs/a"), restored=(record("r", "r"),)
    )

    offered = offered_candidates(decision, (OPTIONAL, MANDATORY, OTHER))

    assert [candidate.key for candidate in offered] == keys


def test_record_offered_anew_stands_for_the_held_one() -> None:
    decision = decided(takes="all", restored=(record("a", "held"),))

    assert offered_candidates(decision, (OPTIONAL,)) == (OPTIONAL,)


@pytest.mark.parametrize(
    ("fallback", "known", "told"),
    [
        ("pass-limit", "source-failed", "pass-limit"),
        (None, "source-failed", "source-failed"),
        (None, None, None),
    ],
)
def test_facts_tell_the_decision(
    fallback: Any, known: str | None, told: str | None
) -> None:
    decision = decided(
        reason="redacted", pass_number=3, is_redacted=True, fallback=fallback
    )

    facts = facts_of(decision, CompileFacts(fallback=known, query_digest="q"))

    assert (facts.refresh_reason, facts.pass_number) == ("redacted", 3)
    assert (facts.is_redacted, facts.fallback) == (True, told)
    assert (facts.phase, facts.query_digest) == ("compile", "q")


def test_facts_of_a_retry_tell_its_phase() -> None:
    facts = facts_of(decided(reason="overflow-retry"), CompileFacts())

    assert (facts.refresh_reason, facts.phase) == ("overflow-retry", "overflow-retry")


SHELF = (
    record("rules", "Deploys need a green run.", requirement="mandatory"),
    record("ci", "Runs start at night.", score=0.9),
    record("back", "Roll back with the previous tag.", score=0.4),
    record("zone", "Everything is in UTC.", score=0.3),
)
LIMITS = RefreshLimits(min_steps=1, max_passes=2)


def ask(step: int) -> tuple[Candidate, ...]:
    """Return what the source offers at a step: more and more, and one text renewed."""
    newer = record("ci", f"Runs start at night, since {step // 4}.", score=0.9)
    return (SHELF[0], newer, *SHELF[2 : 3 + step // 3])


Compiled = tuple[RefreshState, bytes]


def compile_step(state: RefreshState, number: int, budget_tokens: int) -> Compiled:
    """Compile one step as a host does, and return the state and all that came out."""
    task = "deploy" if number < 4 else "verify"
    surface = tuple(p.placed for p in state.placements if p.step + 5 > number)
    step = Step(number=number, task=task, surface=surface)
    after, decision = start_step(state, step, LIMITS)
    answers = ask(number) if decision.is_asking else ()
    if number == 6:
        after, decision = retry_step(after, decision)
        budget_tokens //= 2
    reports = (SourceReport("docs", "rag", "ok" if answers else "skipped"),)
    found = compile_context(
        offered_candidates(decision, answers),
        Policy(budget_tokens=budget_tokens),
        facts=facts_of(decision, CompileFacts(placed=surface, sources=reports)),
        estimate=len,
    )
    block = render_block(
        BlockRecord(c.source, c.kind, c.record_id, c.revision, c.origin, c.text)
        for c in found.selected
    )
    package = digest_text(block)
    after = place_step(after, decision, found.selected, package=package)
    return after, f"{block} {found.manifest.digest()} {decision}".encode()


def converse(restart: Callable[[int], bool]) -> list[bytes]:
    state, outcomes = new_state(), []
    for number in range(12):
        if restart(number):
            state = read_state(write_state(state))
        if number == 8:
            state = forget_records(state, ["docs/ci"])
        state, outcome = compile_step(state, number, 120)
        outcomes += [outcome, write_state(state)]
    return outcomes


def test_compiler_made_from_a_state_compiles_the_same_bytes() -> None:
    whole = converse(lambda number: False)

    for split in range(12):
        assert converse(lambda number, at=split: number == at) == whole  # type: ignore[misc]  # Bound at once.
    assert converse(lambda number: True) == whole


def test_that_conversation_goes_through_every_kind_of_step() -> None:
    outcomes = b" ".join(converse(lambda number: False)).decode()

    for reason in (
        "initial",
        "task-changed",
        "redacted",
        "mandatory-lost",
        "reused",
        "overflow-retry",
    ):
        assert f"reason='{reason}'" in outcomes
