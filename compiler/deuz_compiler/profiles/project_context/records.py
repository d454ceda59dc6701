"""The three files of the project-context-compiler form, strictly read.

Rules:
- Unknown keys, wrong types and foreign schema ids are faults; all are listed.
- A schema id may be absent; if present it must be the expected one.
- Eligibility, relevance and token counts are taken as declared.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from deuz_compiler.records.loading import load_record, load_records, parse_json

CANDIDATE_SCHEMA = "project_context.context_candidate.v1"
REQUEST_SCHEMA = "project_context.context_request.v1"
POLICY_SCHEMA = "project_context.compiler_policy.v1"

ORDER_ROLES = ("instruction", "task", "state", "evidence", "support", "tool")

DeclaredClass = Literal["MANDATORY", "REQUIRED", "PREFERRED", "DISCRETIONARY"]


class DeclaredCandidate(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One representation of one piece of information, as the form declares it."""

    schema_version: str = CANDIDATE_SCHEMA
    candidate_id: str
    content_identity: str
    representation_id: str
    form_rank: int
    min_rank: int
    source_kind: str
    source_ref: str
    kind: str
    content: str
    token_count: int
    token_source: str = "approximation"  # noqa: S105  # A count's origin, no secret.
    requirement: DeclaredClass
    order_role: str
    scope_eligible: bool
    scope_reason: str = ""
    freshness_eligible: bool
    freshness_reason: str = ""
    authority_eligible: bool
    authority_reason: str = ""
    depends_on: tuple[str, ...] = ()
    group_id: str | None = None
    group_required: bool = False
    coverage_keys: tuple[str, ...] = ()
    relevance: float = 0.0
    is_default_form: bool = False


class DeclaredRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is compiled, and under which limits. `active_scope` is only carried."""

    schema_version: str = REQUEST_SCHEMA
    request_id: str
    task_id: str
    usable_token_budget: int
    created_at: str
    active_scope: str = ""
    required_ids: tuple[str, ...] = ()
    policy_version: str = "compiler-policy-v1"


class DeclaredPolicy(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The four values of a policy, and its version."""

    schema_version: str = POLICY_SCHEMA
    policy_version: str
    min_discretionary_relevance: float = 0.3
    mandatory_form: Literal["cheapest"] = "cheapest"
    order_roles: tuple[str, ...] = ORDER_ROLES
    repair: Literal["drop-last-discretionary", "none"] = "drop-last-discretionary"


class Declared(msgspec.Struct, frozen=True, gc=False):
    """All three together."""

    request: DeclaredRequest
    candidates: tuple[DeclaredCandidate, ...]
    policy: DeclaredPolicy


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What could be read of the three files, and what is wrong with them.

    `is_whole` says that no candidate is missing. `declared` is there without faults.
    """

    declared: Declared | None
    candidates: tuple[DeclaredCandidate, ...]
    is_whole: bool
    faults: tuple[str, ...]


def read_declared(request: bytes, candidates: bytes, policy: bytes) -> Reading:
    """Read the three files, each on its own and as they belong together."""
    faults: list[str] = []
    raw = parse_json(request, where="request", faults=faults)
    asked = load_record(DeclaredRequest, raw, where="request", faults=faults)
    raw = parse_json(policy, where="policy", faults=faults)
    rules = load_record(DeclaredPolicy, raw, where="policy", faults=faults)
    before = len(faults)
    pool = _pool(candidates, faults)
    is_whole = len(faults) == before
    faults.extend(_foreign_schemas(asked, pool, rules))
    if asked is not None:
        faults.extend(_request_faults(asked, rules))
    declared = None
    if asked is not None and rules is not None and not faults:
        declared = Declared(asked, pool, rules)
    return Reading(declared, pool, is_whole, tuple(faults))


def _pool(payload: bytes, faults: list[str]) -> tuple[DeclaredCandidate, ...]:
    raw = parse_json(payload, where="candidates", faults=faults)
    if isinstance(raw, Mapping):
        faults.extend(
            f"candidates: unknown field {name}" for name in raw if name != "candidates"
        )
        raw = raw.get("candidates")
    return load_records(DeclaredCandidate, raw, where="candidates", faults=faults)


def _foreign_schemas(
    request: DeclaredRequest | None,
    pool: Sequence[DeclaredCandidate],
    policy: DeclaredPolicy | None,
) -> Iterator[str]:
    parts: list[tuple[str, str, str]] = []
    if request is not None:
        parts.append(("request", request.schema_version, REQUEST_SCHEMA))
    if policy is not None:
        parts.append(("policy", policy.schema_version, POLICY_SCHEMA))
    for place, candidate in enumerate(pool):
        where = f"candidates[{place}]"
        parts.append((where, candidate.schema_version, CANDIDATE_SCHEMA))
    for where, schema, expected in parts:
        if schema != expected:
            yield f"{where}: schema_version is not {expected}"


def _request_faults(
    request: DeclaredRequest, policy: DeclaredPolicy | None
) -> Iterator[str]:
    if request.usable_token_budget < 0:
        yield "request: usable_token_budget is negative"
    if policy is not None and request.policy_version != policy.policy_version:
        yield "request: policy_version is not the policy's"
