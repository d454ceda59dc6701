import msgspec
import pytest

from deuz_compiler.records.manifest import (
    BudgetSummary,
    ContextWarning,
    Manifest,
    SourceSummary,
    context_warnings,
)


def manifest(**fields: object) -> Manifest:
    known = {
        "policy_version": "p",
        "budget": BudgetSummary(context_tokens=9, ceiling_tokens=9, selected_tokens=0),
        "estimator": "heuristic",
        "refresh_reason": "initial",
        "pass_number": 1,
        "query_digest": "",
        **fields,
    }
    return Manifest(**known)  # type: ignore[arg-type]  # Fields of a builder.


def source(status: str, error: str | None = None) -> SourceSummary:
    return SourceSummary(
        source=status,
        kind="rag",
        status=status,
        selected=0,
        excluded=0,
        tokens=0,
        error=error,
    )


def test_manifest_carries_its_version() -> None:
    assert manifest().version == 1


@pytest.mark.parametrize(
    "change",
    [{"pass_number": 2}, {"is_redacted": True}, {"sources": (source("ok"),)}],
)
def test_digest_changes_with_every_field_and_only_then(
    change: dict[str, object],
) -> None:
    assert manifest().digest() == manifest().digest()
    assert manifest(**change).digest() != manifest().digest()


def test_manifest_is_read_back_as_it_was() -> None:
    whole = manifest(sources=(source("failed", "timeout"),))

    assert msgspec.json.decode(msgspec.json.encode(whole), type=Manifest) == whole


def test_warnings_follow_from_a_manifest_alone() -> None:
    account = manifest(
        sources=(source("ok"), source("failed", "timeout"), source("late"))
    )

    assert context_warnings(account) == (
        ContextWarning("context-source-failed", "failed", "timeout"),
        ContextWarning("context-source-late", "late", None),
    )
