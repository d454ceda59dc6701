"""One compile: candidates, a policy and facts in; a selection and its manifest out.

Rules:
- Pure and deterministic: the same input gives the same selection and manifest digest.
- A record is "placed" when its text is on the surface, under whatever id, or when the
  surface has it at the same revision; a new revision with a new text is a new record.
- Every candidate offered is in the manifest exactly once.
- A refusal is a result; malformed input is an error that lists every fault.
- A required source that failed or came late refuses; an optional one is a fallback.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from deuz_compiler.canonical import digest_text
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import ANSWERS, CompileFacts, PlacedRecord
from deuz_compiler.records.manifest import Manifest
from deuz_compiler.records.policy import Policy
from deuz_compiler.records.refusal import SOURCE_FAILED, Refusal
from deuz_compiler.records.trace import Decision
from deuz_compiler.selection.account import account
from deuz_compiler.selection.engine import Selection, ceiling_tokens, select
from deuz_compiler.selection.explain import Explanation, explain_node
from deuz_compiler.selection.faults import Sifted, sift
from deuz_compiler.selection.pool import Pool, Surroundings, build_pool


class Compilation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What came out.

    `selected` is in placement order; a projected record has its projection as `text`
    and keeps the digest of its full text. `tokens` is the cost of the whole block, 0
    without one. `trace` holds the engine's decisions, by key.
    """

    selected: tuple[Candidate, ...]
    tokens: int
    manifest: Manifest
    refusal: Refusal | None
    trace: tuple[Decision, ...]


def compile_context(
    candidates: Sequence[Candidate],
    policy: Policy,
    *,
    facts: CompileFacts,
    estimate: Callable[[str], int],
) -> Compilation:
    """Decide which candidates enter, and account for every one of them.

    Raises:
        MalformedInput: the policy is malformed, or records are and may not be left out.
    """
    policy, sifted, pool = _prepared(candidates, policy, facts, estimate)
    selection = _failed(facts, policy) or select(pool, policy)
    manifest = account(selection, pool, sifted, policy=policy, facts=facts)
    decisions = selection.decisions
    return Compilation(
        selected=tuple([_selected(pool, node, decisions) for node in selection.nodes]),
        tokens=selection.tokens,
        manifest=manifest,
        refusal=manifest.refusal,
        trace=tuple([decisions[node] for node in sorted(decisions)]),
    )


def explain(
    candidates: Sequence[Candidate],
    policy: Policy,
    *,
    key: str,
    facts: CompileFacts,
    estimate: Callable[[str], int],
) -> Explanation | None:
    """Explain one candidate, by key; None where no well-formed one has that key.

    Raises:
        MalformedInput: as `compile_context` does.
    """
    policy, _, pool = _prepared(candidates, policy, facts, estimate)
    if key not in pool.keys:
        return None
    failed = _failed(facts, policy)
    return explain_node(pool, policy, pool.keys.index(key), failed=failed)


def _prepared(
    candidates: Sequence[Candidate],
    policy: Policy,
    facts: CompileFacts,
    estimate: Callable[[str], int],
) -> tuple[Policy, Sifted, Pool]:
    policy = _with_source_order(policy, facts)
    if facts.placed:
        # What is placed is known by digests: made here, they are not made again.
        candidates = [_digested(candidate) for candidate in candidates]
    placed = _placed_keys(candidates, facts.placed)
    sifted = sift(candidates, policy, placed=placed)
    around = Surroundings(placed, facts.now)
    pool = build_pool(sifted.candidates, policy, around=around, estimate=estimate)
    return policy, sifted, pool


def _with_source_order(policy: Policy, facts: CompileFacts) -> Policy:
    """Take the order of the sources from their reports where the policy has none."""
    if policy.sources:
        return policy
    order = tuple(dict.fromkeys(report.source for report in facts.sources))
    return msgspec.structs.replace(policy, sources=order)


def _digested(candidate: Candidate) -> Candidate:
    if candidate.digest:
        return candidate
    return msgspec.structs.replace(candidate, digest=digest_text(candidate.text))


def _placed_keys(
    offered: Iterable[Candidate], placed: Sequence[PlacedRecord]
) -> frozenset[str]:
    """Return the keys that are on the surface, less those offered with a new text."""
    if not placed:
        return frozenset()
    keys = {record.key: None for record in placed}
    digests = {record.digest for record in placed}
    revisions = {(record.key, record.revision) for record in placed if record.revision}
    for candidate in offered:
        key = candidate.key
        if candidate.digest in digests or (key, candidate.revision) in revisions:
            keys[key] = None
        else:
            keys.pop(key, None)
    return frozenset(keys)


def _failed(facts: CompileFacts, policy: Policy) -> Selection | None:
    """Return the refusal that a failed required source amounts to, if there is one."""
    failed = [
        r.source for r in facts.sources if r.is_required and r.status not in ANSWERS
    ]
    if not failed:
        return None
    refusal = Refusal(
        reason=SOURCE_FAILED,
        blocking=tuple(sorted(failed)),
        detail="required sources without an answer",
        total_tokens=ceiling_tokens(policy),
    )
    return Selection((), 0, {}, refusal, None, None)


def _selected(pool: Pool, node: int, decisions: Mapping[int, Decision]) -> Candidate:
    candidate = pool.candidates[node]
    if not candidate.digest:
        candidate = msgspec.structs.replace(candidate, digest=pool.digests[node])
    if not decisions[node].is_projected:
        return candidate
    return msgspec.structs.replace(
        candidate, text=candidate.projection or "", representation="projection"
    )
