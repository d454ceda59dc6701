import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.canonical import digest_text
from deuz_compiler.compilation import Compilation, compile_context, explain
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts, PlacedRecord, SourceReport
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.records.reasons import EXCLUDED_REASONS, SELECTED_REASONS

POLICY = Policy(
    budget_tokens=100,
    overhead=Overhead(block_tokens=10, record_tokens=4, between_tokens=1),
    shares=(Share("rag", 1), Share("memory", 1)),
)
NOTHING = CompileFacts()


def record(
    source: str, key: str, text: str = "0123456789", **fields: object
) -> Candidate:
    known = {"kind": "rag", **fields}
    return Candidate(source=source, record_id=key, text=text, **known)  # type: ignore[arg-type]  # Builder.


def compiled(
    *candidates: Candidate, facts: CompileFacts = NOTHING, **fields: object
) -> Compilation:
    policy = msgspec.structs.replace(POLICY, **fields)
    return compile_context(candidates, policy, facts=facts, estimate=len)


def reasons_of(compilation: Compilation) -> dict[str, str]:
    return {entry.record_id: entry.reason for entry in compilation.manifest.entries}


def test_block_is_paid_for_with_its_records_labels_and_separators() -> None:
    found = compiled(record("docs", "1"), record("docs", "2", "other text"))

    assert [candidate.key for candidate in found.selected] == ["docs/1", "docs/2"]
    assert found.tokens == 10 + 2 * (10 + 4) + 1
    assert found.manifest.budget.selected_tokens == found.tokens


def test_nothing_offered_costs_nothing_and_is_no_refusal() -> None:
    found = compiled()

    assert (found.selected, found.tokens, found.refusal) == ((), 0, None)


def test_budget_below_the_blocks_own_cost_places_nothing() -> None:
    found = compiled(record("docs", "1"), budget_tokens=9)

    assert (found.selected, found.tokens, found.refusal) == ((), 0, None)


def test_equal_texts_of_two_sources_enter_once_from_the_first_source() -> None:
    reports = (SourceReport("z", "rag"), SourceReport("a", "rag"))

    found = compiled(
        record("a", "1"), record("z", "2"), facts=CompileFacts(sources=reports)
    )

    assert reasons_of(found) == {"2": "ranked", "1": "duplicate-content"}


def test_policy_may_set_another_order_of_sources() -> None:
    reports = (SourceReport("z", "rag"), SourceReport("a", "rag"))
    facts = CompileFacts(sources=reports)

    found = compiled(record("a", "1"), record("z", "2"), facts=facts, sources=("a",))

    assert reasons_of(found)["1"] == "ranked"


PLACED = PlacedRecord("docs", "1", "v1", digest_text("0123456789"))


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (record("docs", "1", revision="v1"), "already-placed"),
        (record("docs", "1", revision="v2"), "already-placed"),
        (record("docs", "1", "new text", revision="v1"), "already-placed"),
        (record("docs", "1", "new text", revision="v2"), "ranked"),
        (record("docs", "1", "new text"), "ranked"),
        (record("wiki", "9"), "already-placed"),
        (record("wiki", "9", "new", digest=PLACED.digest), "already-placed"),
    ],
)
def test_record_is_placed_by_its_text_or_by_its_revision(
    offered: Candidate, reason: str
) -> None:
    found = compiled(offered, facts=CompileFacts(placed=(PLACED,)))

    assert list(reasons_of(found).values()) == [reason]


def test_placed_record_satisfies_who_needs_it_and_costs_nothing() -> None:
    needy = record("docs", "2", "needs the first", depends_on=("docs/1",))

    found = compiled(needy, facts=CompileFacts(placed=(PLACED,)))

    assert [candidate.key for candidate in found.selected] == ["docs/2"]
    assert found.tokens == 10 + 15 + 4


def test_new_text_of_a_placed_record_comes_along_with_who_needs_it() -> None:
    needy = record("docs", "2", "needs the first", depends_on=("docs/1",), score=1.0)
    newer = record("docs", "1", "newer", revision="v2")

    found = compiled(needy, newer, facts=CompileFacts(placed=(PLACED,)))

    assert reasons_of(found) == {"1": "dependency", "2": "ranked"}


def test_mandatory_record_that_is_placed_is_not_placed_again() -> None:
    found = compiled(
        record("docs", "1", requirement="mandatory"),
        facts=CompileFacts(placed=(PLACED,)),
    )

    assert (found.selected, found.refusal) == ((), None)
    assert reasons_of(found) == {"1": "already-placed"}


def test_projected_record_carries_the_projection_and_the_digest_of_its_full_text() -> (
    None
):
    full = "x" * 200

    found = compiled(record("docs", "1", full, projection="short"))

    (chosen,) = found.selected
    assert (chosen.text, chosen.representation) == ("short", "projection")
    assert chosen.digest == digest_text(full)
    assert found.tokens == 10 + 5 + 4


def test_failed_required_source_refuses_and_accounts_for_everything() -> None:
    reports = (
        SourceReport("z", "rag", "failed", "timeout", is_required=True),
        SourceReport("k", "rag", "late", is_required=True),
        SourceReport("a", "rag"),
    )

    found = compiled(record("a", "1"), facts=CompileFacts(sources=reports))

    assert found.refusal is not None
    assert (found.refusal.reason, found.refusal.blocking) == (
        "source-failed",
        ("k", "z"),
    )
    assert (found.selected, found.tokens) == ((), 0)
    assert reasons_of(found) == {"1": "refused"}


def test_required_source_that_was_not_asked_refuses_like_one_that_failed() -> None:
    skipped = SourceReport("z", "rag", "skipped", "resting", is_required=True)
    empty = SourceReport("a", "rag", "empty", is_required=True)

    refused = compiled(record("a", "1"), facts=CompileFacts(sources=(skipped, empty)))
    found = compiled(record("a", "1"), facts=CompileFacts(sources=(empty,)))

    assert refused.refusal is not None
    assert refused.refusal.blocking == ("z",)
    assert found.refusal is None


def test_failed_optional_source_is_a_fallback() -> None:
    reports = (SourceReport("z", "rag", "failed"), SourceReport("a", "rag"))

    found = compiled(record("a", "1"), facts=CompileFacts(sources=reports))

    assert len(found.selected) == 1
    assert found.manifest.fallback == "source-failed"


def test_refusal_carries_required_available_and_phase() -> None:
    found = compiled(
        record("a", "1", "x" * 200, requirement="mandatory"),
        facts=CompileFacts(phase="overflow-retry"),
        ceiling_tokens=150,
    )

    assert found.refusal is not None
    assert found.refusal.required_tokens == 214
    assert found.refusal.available_tokens == 150
    assert found.refusal.phase == "overflow-retry"


def test_trace_tells_the_place_of_each_selected_record() -> None:
    found = compiled(
        record("docs", "1", score=0.1),
        record("docs", "2", "other text", requirement="mandatory"),
        record("docs", "3", "x" * 200),
    )

    places = {decision.key: decision.position for decision in found.trace}
    assert [candidate.key for candidate in found.selected] == ["docs/2", "docs/1"]
    assert places == {"docs/2": 0, "docs/1": 1, "docs/3": None}


def test_malformed_input_lists_every_fault() -> None:
    with pytest.raises(MalformedInput) as caught:
        compiled(record("a", "1", score=7.0), record("a", "1"), faults="raise")

    assert caught.value.faults == (
        "candidate a/1: score 7.0 is outside 0 to 1",
        "candidate a/1: duplicate",
    )


def test_explanation_goes_by_key() -> None:
    candidates = (record("a", "1", score=0.9), record("a", "2", "later"))
    case = explain(candidates, POLICY, key="a/2", facts=NOTHING, estimate=len)

    assert case is not None
    assert (case.key, case.reason, case.needs) == ("a/2", "ranked", ("a/2",))
    nobody = explain(candidates, POLICY, key="a/3", facts=NOTHING, estimate=len)
    assert nobody is None


def test_failed_required_source_is_what_an_explanation_tells() -> None:
    failed = CompileFacts(sources=(SourceReport("z", "rag", "late", is_required=True),))

    case = explain([record("a", "1")], POLICY, key="a/1", facts=failed, estimate=len)

    assert case is not None
    assert (case.is_selected, case.reason) == (False, "refused")
    assert case.detail == "required sources without an answer"
    assert (case.smallest_budget_tokens, case.is_complete) == (None, True)


def test_name_that_is_no_text_costs_no_more_than_its_own_record() -> None:
    fields = ("source", "kind", "record_id", "revision", "digest")
    odd = [
        msgspec.structs.replace(record("a", name), **{name: "caf\udce9"})
        for name in fields
    ]
    needy = record("a", "2", depends_on=("caf\udce9",))

    found = compiled(record("a", "1"), *odd, needy)

    entries = found.manifest.entries
    assert [e.reason for e in entries] == ["ranked"] + ["malformed"] * 6
    assert [getattr(e, n) for e, n in zip(entries[1:], fields, strict=False)] == [
        "caf\ufffd"
    ] * 5
    assert entries[6].depends_on == ("caf\ufffd",)
    assert found.manifest.digest().startswith("sha256:")


@st.composite
def offers(draw: st.DrawFn) -> list[Candidate]:
    return [
        record(
            draw(st.sampled_from(["docs", "memory"])),
            draw(st.sampled_from(["1", "2", "3", "4", "bad\n"])),
            draw(st.text(max_size=40)),
            kind=draw(st.sampled_from(["rag", "memory", "skills"])),
            score=draw(st.floats(0, 1)),
            priority=draw(st.integers(-2, 2)),
            requirement=draw(
                st.sampled_from(["required", "preferred", "discretionary"])
            ),
            depends_on=tuple(draw(st.lists(st.sampled_from(["docs/1", "x/y"])))),
            expires_at=draw(st.sampled_from([None, 1.0, 3.0])),
            projection=draw(st.sampled_from([None, "p"])),
        )
        for _ in range(draw(st.integers(0, 8)))
    ]


@given(candidates=offers(), tokens=st.integers(0, 120))
def test_same_input_gives_the_same_answer_and_names_every_candidate_once(
    candidates: list[Candidate], tokens: int
) -> None:
    facts = CompileFacts(placed=(PLACED,), now=2.0)

    first = compiled(*candidates, facts=facts, budget_tokens=tokens)
    again = compiled(*candidates, facts=facts, budget_tokens=tokens)

    assert first == again
    assert first.manifest.digest() == again.manifest.digest()
    entries = first.manifest.entries
    named = sorted((entry.source, entry.record_id) for entry in entries)
    assert named == sorted((c.source, c.record_id) for c in candidates)
    for entry in entries:
        reasons = SELECTED_REASONS if entry.is_selected else EXCLUDED_REASONS
        assert entry.reason in reasons
    chosen = [(c.source, c.record_id) for c in first.selected]
    assert chosen == [(e.source, e.record_id) for e in entries if e.is_selected]
    assert first.tokens <= tokens
