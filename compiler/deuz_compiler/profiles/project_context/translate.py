"""From the form's records to the engine's: all that sets the form apart is a policy.

Rules:
- A rough count stands for a tokenizer: words times 1.3, rounded half to even, at least
  1 for any word; whitespace is any, runs collapse.
- What rendering adds is counted by words too: a label per item, one between items, a
  header with the request's names.
- Admission counts declared tokens only; an overrun shows after rendering and is then
  repaired.
- With exact search admission counts rendered tokens, so that "legal" has one meaning.
"""

from typing import Literal

from deuz_compiler.canonical import digest_text
from deuz_compiler.profiles.project_context.records import Declared, DeclaredCandidate
from deuz_compiler.records.candidate import Candidate, Eligibility, Requirement
from deuz_compiler.records.policy import Overhead, Policy

_CLASSES: dict[str, Requirement] = {
    "MANDATORY": "mandatory",
    "REQUIRED": "required",
    "PREFERRED": "preferred",
    "DISCRETIONARY": "discretionary",
}


def rough_tokens(text: str) -> int:
    """Return the rough count of a text."""
    words = len(text.split())
    if words == 0:
        return 0
    # Half to even in whole numbers: a float would round 1.3 before it rounds the sum.
    whole, tenths = divmod(words * 13, 10)
    is_up = tenths > 5 or (tenths == 5 and whole % 2 == 1)  # noqa: PLR2004  # Half of ten.
    return max(1, whole + is_up)


def engine_policy(declared: Declared, search: Literal["greedy", "exact"]) -> Policy:
    """Return the engine's policy for a request of the form."""
    request, policy = declared.request, declared.policy
    header = f"{request.request_id} {request.task_id} {request.policy_version}"
    return Policy(
        version=policy.policy_version,
        budget_tokens=request.usable_token_budget,
        threshold=policy.min_discretionary_relevance,
        ranking=("score", "coverage", "cost"),
        ordering=("role",),
        roles=policy.order_roles,
        required=request.required_ids,
        mandatory_form=policy.mandatory_form,
        overhead=Overhead(block_tokens=rough_tokens(header), between_tokens=1),
        pricing="rendered" if search == "exact" else "declared",
        repair=policy.repair,
        faults="raise",
        empty_block="rendered",
        search=search,
    )


def engine_candidate(declared: DeclaredCandidate) -> Candidate:
    """Return the engine's candidate for one of the form."""
    return Candidate(
        source="",
        kind=declared.kind,
        record_id=declared.candidate_id,
        text=declared.content,
        digest=digest_text(declared.content),
        tokens=declared.token_count,
        label_tokens=rough_tokens(f"{declared.source_kind} {declared.kind}"),
        score=declared.relevance,
        requirement=_CLASSES[declared.requirement],
        content_identity=declared.content_identity,
        representation=declared.representation_id,
        form_rank=declared.form_rank,
        min_rank=declared.min_rank,
        role=declared.order_role,
        scope=Eligibility(declared.scope_eligible, declared.scope_reason),
        freshness=Eligibility(declared.freshness_eligible, declared.freshness_reason),
        authority=Eligibility(declared.authority_eligible, declared.authority_reason),
        depends_on=declared.depends_on,
        group_id=declared.group_id,
        is_group_required=declared.group_required,
        coverage_keys=declared.coverage_keys,
        origin=declared.source_kind,
        provenance=(("source_ref", declared.source_ref),),
    )
