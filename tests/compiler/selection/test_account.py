import msgspec
import pytest

from deuz_compiler.canonical import digest_text
from deuz_compiler.compilation import compile_context
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts, SourceReport, SourceStatus
from deuz_compiler.records.manifest import BudgetSummary, Manifest
from deuz_compiler.records.policy import Policy

POLICY = Policy(budget_tokens=30)


def record(source: str, key: str, tokens: int, **fields: object) -> Candidate:
    known = {"kind": "rag", "text": f"text of {key}", **fields}
    return Candidate(source=source, record_id=key, tokens=tokens, **known)  # type: ignore[arg-type]  # Builder.


def manifest(*candidates: Candidate, tokens: int = 30, **facts: object) -> Manifest:
    return compile_context(
        candidates,
        msgspec.structs.replace(POLICY, budget_tokens=tokens),
        facts=CompileFacts(**facts),  # type: ignore[arg-type]  # Fields of a builder.
        estimate=len,
    ).manifest


def test_selected_come_first_then_others_by_source_then_what_never_got_in() -> None:
    account = manifest(
        record("b", "1", -1),
        record("b", "2", 40),
        record("a", "3", 50),
        record("a", "4", 10),
        record("a", "4", 10, text="again"),
        sources=(SourceReport("b", "rag"), SourceReport("a", "rag")),
    )

    assert [(e.source, e.record_id, e.reason) for e in account.entries] == [
        ("a", "4", "ranked"),
        ("b", "2", "over-budget"),
        ("a", "3", "over-budget"),
        ("b", "1", "malformed"),
        ("a", "4", "duplicate-record"),
    ]


def test_every_source_is_summed_up_reported_or_not() -> None:
    account = manifest(
        record("docs", "1", 10),
        record("docs", "2", 40),
        record("extra", "3", 5, kind="memory"),
        sources=(
            SourceReport("idle", "skills", "empty"),
            SourceReport("docs", "rag"),
            SourceReport("kb", "rag", "late", "deadline"),
        ),
    )

    assert [
        (s.source, s.kind, s.status, s.selected, s.excluded, s.tokens, s.error)
        for s in account.sources
    ] == [
        ("idle", "skills", "empty", 0, 0, 0, None),
        ("docs", "rag", "ok", 1, 1, 10, None),
        ("kb", "rag", "late", 0, 0, 0, "deadline"),
        ("extra", "memory", "ok", 1, 0, 5, None),
    ]


@pytest.mark.parametrize(
    ("statuses", "given", "fallback"),
    [
        (("ok", "empty", "skipped"), None, None),
        (("late", "ok"), None, "source-late"),
        (("late", "failed"), None, "source-failed"),
        (("failed",), "pass-limit", "pass-limit"),
    ],
)
def test_missing_answer_is_a_fallback_unless_one_is_given(
    statuses: tuple[SourceStatus, ...], given: str | None, fallback: str | None
) -> None:
    reports = tuple(
        SourceReport(f"s{place}", "rag", status)
        for place, status in enumerate(statuses)
    )

    assert manifest(sources=reports, fallback=given).fallback == fallback


def test_refusal_selects_nothing_and_keeps_the_reasons_of_others() -> None:
    account = manifest(
        record("a", "1", 10, requirement="mandatory"),
        record("a", "2", 90, requirement="mandatory"),
        record("a", "3", 1),
        record("a", "4", 1, expires_at=5.0),
        now=9.0,
        phase="overflow-retry",
    )

    assert [(e.record_id, e.is_selected, e.reason) for e in account.entries] == [
        ("1", False, "refused"),
        ("2", False, "refused"),
        ("3", False, "refused"),
        ("4", False, "expired"),
    ]
    assert account.refusal is not None
    assert account.refusal.phase == "overflow-retry"
    assert account.budget.selected_tokens == 0


def test_what_was_let_in_before_a_refusal_is_refused_like_the_rest() -> None:
    account = manifest(
        record("a", "1", 10, requirement="mandatory"),
        record("a", "2", 90, requirement="required"),
    )

    assert [(e.is_selected, e.reason) for e in account.entries] == [
        (False, "refused"),
        (False, "refused"),
    ]


def test_projected_entry_tells_its_own_price() -> None:
    entry = manifest(record("a", "1", 90, projection="12345")).entries[0]

    assert (entry.is_selected, entry.is_projected, entry.tokens) == (True, True, 5)
    assert entry.digest.startswith("sha256:")


def test_manifest_holds_no_content() -> None:
    canary = "CANARY-7c1"
    account = manifest(
        record("a", "1", 10, text=canary, projection=canary),
        record("a", "2", 99, text=canary),
        record("a", "3", -1, text=canary),
    )

    assert canary.encode() not in msgspec.json.encode(account)


def test_manifest_repeats_the_facts_and_the_policy_it_was_made_by() -> None:
    facts = CompileFacts(
        refresh_reason="host-request",
        pass_number=3,
        query_digest="sha256:q",
        estimator="tokenizer",
        is_prefix_changed=True,
        is_redacted=True,
    )
    policy = Policy(
        version="v7", budget_tokens=20, ceiling_tokens=50, search="exact", shares=()
    )

    account = compile_context(
        [record("a", "1", 10)], policy, facts=facts, estimate=len
    ).manifest

    assert account.policy_version == "v7"
    assert account.budget == BudgetSummary(
        context_tokens=20, ceiling_tokens=50, selected_tokens=10
    )
    assert account.estimator == "tokenizer"
    assert account.refresh_reason == "host-request"
    assert (account.pass_number, account.query_digest) == (3, "sha256:q")
    assert (account.is_prefix_changed, account.is_redacted) == (True, True)
    assert account.search is not None


def test_entry_repeats_its_record() -> None:
    fields = {
        "revision": "r9",
        "digest": "sha256:d",
        "requirement": "preferred",
        "depends_on": ("a/2",),
    }
    account = manifest(record("a", "1", 10, **fields), record("a", "2", 10))

    assert msgspec.to_builtins(account.entries[0]) == {
        "source": "a",
        "kind": "rag",
        "record_id": "1",
        "tokens": 10,
        "is_selected": True,
        "reason": "ranked",
        "is_projected": False,
        **fields,
    }


def test_what_was_left_out_tells_what_it_would_have_cost() -> None:
    group = {"group_id": "g", "is_group_required": True}
    account = manifest(
        record("a", "1", 40),
        record("a", "2", -1),
        record("a", "3", 1, **group),
        record("a", "4", -1, **group),
    )
    refused = manifest(
        record("a", "1", 40, requirement="mandatory"), record("a", "2", 7)
    )

    # Of what is malformed nothing is known.
    assert [entry.tokens for entry in account.entries] == [40, 0, 0, 0]
    assert [entry.tokens for entry in refused.entries] == [40, 7]


def test_entry_left_out_tells_the_digest_that_is_declared_or_that_of_its_text() -> None:
    account = manifest(
        record("a", "1", 90, digest="sha256:d"), record("a", "2", 90, text="abc")
    )

    assert [entry.digest for entry in account.entries] == [
        "sha256:d",
        digest_text("abc"),
    ]


def test_sources_without_a_report_are_told_last() -> None:
    reports = (SourceReport("z", "rag"), SourceReport("b", "rag"))

    account = manifest(
        record("a", "1", 90),
        record("z", "2", 90),
        record("b", "3", 90),
        sources=reports,
    )

    assert [entry.source for entry in account.entries] == ["z", "b", "a"]
