"""The form's answer: bundle, rendered text, trace and result in its own vocabulary.

Rules:
- The trace is the first version: `budget_after` repeats `budget_before`, and
  `dependency_closure` is empty. Both are fixed in the stored cases.
- Entries are sorted by candidate id, members by name; two spaces of indent, and a final
  newline.
- The bundle's hash covers ids and contents in order, and nothing else.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from deuz_compiler.profiles.project_context.records import Declared, DeclaredCandidate
from deuz_compiler.records import reasons
from deuz_compiler.records import refusal as refusals
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.records.trace import Block, Decision

ITEM_SCHEMA = "project_context.context_item.v1"
BUNDLE_SCHEMA = "project_context.context_bundle.v1"
TRACE_SCHEMA = "project_context.decision_trace.v1"
FAILURE_SCHEMA = "project_context.compile_failure.v1"
RESULT_SCHEMA = "project_context.compilation_result.v1"

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The engine's answer in terms of the form: its items, and what they cost."""

    items: tuple[DeclaredCandidate, ...]
    item_tokens: tuple[int, ...]
    tokens: int
    trace: tuple[Decision, ...]
    refusal: Refusal | None


_STAGES = {
    "mandatory": "mandatory",
    "required": "required",
    "preferred": "preferred-greedy",
    "discretionary": "discretionary-greedy",
}

_GATES = {
    reasons.SCOPE_INELIGIBLE: "scope_ineligible",
    reasons.FRESHNESS_INELIGIBLE: "freshness_ineligible",
    reasons.AUTHORITY_INELIGIBLE: "authority_ineligible",
    reasons.BELOW_FLOOR: "illegal_representation",
}

_REJECTIONS = {
    reasons.DUPLICATE_CONTENT: (
        "REJECTED_ALTERNATIVE",
        "alternative_selected",
        "another form of this content admitted",
    ),
    reasons.DEPENDENCY_BLOCKED: (
        "REJECTED_DEPENDENCY",
        "dependency-blocked",
        "dependency ineligible or collides",
    ),
    reasons.BELOW_THRESHOLD: (
        "REJECTED_REDUNDANT",
        "no-earn",
        "below relevance threshold with no new coverage",
    ),
    reasons.RENDER_OVERRUN: (
        "REJECTED_BUDGET",
        "repair-drop",
        "removed by render-overrun repair",
    ),
    reasons.OVER_BUDGET: (
        "REJECTED_BUDGET",
        "budget",
        "unit exceeds remaining budget",
    ),
}

_FAILURES = {
    refusals.INSUFFICIENT_BUDGET: "INSUFFICIENT_BUDGET",
    refusals.SEARCH_EXHAUSTED: "INSUFFICIENT_BUDGET",
    refusals.UNSATISFIED_DEPENDENCY: "UNSATISFIED_DEPENDENCY",
    refusals.NO_LEGAL_FORM: "NO_LEGAL_REPRESENTATION",
    refusals.UNRESOLVED_GROUP: "UNRESOLVED_REQUIRED_GROUP",
    refusals.REQUIRED_ABSENT: "REQUIRED_SOURCE_UNAVAILABLE",
    refusals.REQUIRED_INELIGIBLE: "REQUIRED_INELIGIBLE",
}


def golden_form(
    declared: Declared, outcome: Outcome, *, fixture: str, budget: str | None
) -> str:
    """Return the whole answer as one JSON text."""
    nodes = outcome.items
    bundle = _bundle(declared, outcome) if outcome.refusal is None else None
    trace = _trace(declared, outcome)
    result = _result(declared, outcome, trace)
    ids = [item.candidate_id for item in nodes]
    envelope: Json = {
        "admitted_candidate_ids": ids,
        "admitted_representation_ids": [item.representation_id for item in nodes],
        "budget": budget,
        "bundle": bundle,
        "bundle_hash": result["bundle_hash"],
        "bundle_order": ids,
        "bundle_tokens": result["bundle_tokens"],
        "failure": result["failure"],
        "fixture": fixture,
        "policy": msgspec.to_builtins(declared.policy),
        "rendered_text": _text(declared, outcome) if bundle else None,
        "request": msgspec.to_builtins(declared.request),
        "result": result,
        "success": result["success"],
        "trace": trace,
    }
    return json.dumps(envelope, sort_keys=True, indent=2) + "\n"


def _bundle(declared: Declared, outcome: Outcome) -> Json:
    items = [
        _item(item, tokens, position)
        for position, (item, tokens) in enumerate(
            zip(outcome.items, outcome.item_tokens, strict=True)
        )
    ]
    return {
        "created_at": declared.request.created_at,
        "evidence_class": "synthetic",
        "id": _bundle_id(declared),
        "items": items,
        "layout_trace": [item.candidate_id for item in outcome.items],
        "provenance": None,
        "schema_version": BUNDLE_SCHEMA,
    }


def _item(item: DeclaredCandidate, tokens: int, position: int) -> Json:
    empty = dict.fromkeys(("authority", "observed_at", "ref", "scope", "semantic_id"))
    return {
        **empty,
        "content": item.content,
        "id": item.candidate_id,
        "kind": item.kind,
        "position": position,
        "schema_version": ITEM_SCHEMA,
        "source": item.source_kind,
        "token_count": tokens,
        "token_provenance": "approximation",
    }


def _bundle_id(declared: Declared) -> str:
    return f"{declared.request.request_id}-bundle"


def _text(declared: Declared, outcome: Outcome) -> str:
    body = "\n---\n".join([item.content for item in outcome.items])
    lines = [
        "[CONTEXT BUNDLE]",
        f"id: {_bundle_id(declared)}",
        f"items: {len(outcome.items)}",
        *(["---", body] if outcome.items else []),
        "[/CONTEXT BUNDLE]",
    ]
    return "\n".join(lines) + "\n"


def _hash(items: Sequence[DeclaredCandidate]) -> str:
    digest = sha256()
    for item in items:
        for part in (item.candidate_id, item.content):
            digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _trace(declared: Declared, outcome: Outcome) -> Json:
    by_id = {item.candidate_id: item for item in declared.candidates}
    return {
        "entries": [_entry(d, by_id[d.key], outcome.refusal) for d in outcome.trace],
        "policy_version": declared.request.policy_version,
        "request_id": declared.request.request_id,
        "schema_version": TRACE_SCHEMA,
    }


def _entry(
    decision: Decision, item: DeclaredCandidate, refusal: Refusal | None
) -> Json:
    verdict, code, detail = _words(decision)
    return {
        "budget_after": decision.before_tokens,
        "budget_before": decision.before_tokens,
        "candidate_id": decision.key,
        "content_identity": item.content_identity,
        "decision": verdict,
        "dependency_closure": [],
        "marginal_cost": decision.cost_tokens,
        "position": decision.position if refusal is None else None,
        "priority_band": decision.requirement.upper(),
        "reason_code": code,
        "reason_detail": detail,
        "relevance": item.relevance,
        "representation_id": item.representation_id,
    }


def _words(decision: Decision) -> tuple[str, str, str]:
    if decision.is_selected:
        return "ADMITTED", "admitted", _STAGES[decision.stage]
    if decision.reason in _GATES:
        return "REJECTED_HARD", _GATES[decision.reason], decision.detail
    return _REJECTIONS[decision.reason]


def _result(declared: Declared, outcome: Outcome, trace: Json) -> Json:
    request = declared.request
    is_bundle = outcome.refusal is None
    return {
        "bundle_hash": _hash(outcome.items) if is_bundle else None,
        "bundle_id": _bundle_id(declared) if is_bundle else None,
        "bundle_tokens": outcome.tokens if is_bundle else None,
        "failure": outcome.refusal and _failure(declared, outcome.refusal),
        "policy_version": request.policy_version,
        "request_id": request.request_id,
        "schema_version": RESULT_SCHEMA,
        "success": is_bundle,
        "trace": trace,
    }


def _failure(declared: Declared, refusal: Refusal) -> Json:
    return {
        "blocking_ids": list(refusal.blocking),
        "budget_total": refusal.total_tokens,
        "budget_used": refusal.used_tokens,
        "diagnostic": _diagnostic(refusal),
        "policy_version": declared.request.policy_version,
        "reason": _FAILURES[refusal.reason],
        "request_id": declared.request.request_id,
        "schema_version": FAILURE_SCHEMA,
    }


def _diagnostic(refusal: Refusal) -> str:
    block = refusal.block
    if block is None:
        return refusal.detail
    code = _GATES.get(block.code, block.code)
    return f"{refusal.detail}: {Block(block.kind, block.key, code)}"
