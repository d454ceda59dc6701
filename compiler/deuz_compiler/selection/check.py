"""The last look before release: the rules once more, without the engine's own state.

Rules:
- Written apart from the stages on purpose: it walks candidates and keys, not edges.
- It finds nothing unless the engine is wrong; then the bundle is refused, not sent.
"""

from collections.abc import Sequence

from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET, Refusal
from deuz_compiler.selection.pool import Pool


def problems_of(pool: Pool, nodes: Sequence[int]) -> tuple[str, ...]:
    """Return what is wrong with a selection, in the order of the nodes."""
    problems = []
    if len(dict.fromkeys(nodes)) < len(nodes):
        problems.append("a record is in twice")
    if len({pool.identities[node] for node in nodes}) < len(nodes):
        problems.append("a content is in twice")
    present = pool.placed.union([pool.keys[node] for node in nodes])
    for node in nodes:
        problems.extend(_record_problems(pool, node, present))
    return tuple(problems)


def refusal_of(problems: Sequence[str]) -> Refusal | None:
    """Return the refusal that problems amount to, if there are any."""
    if not problems:
        return None
    listed = "; ".join(problems)
    return Refusal(
        reason=INSUFFICIENT_BUDGET,
        detail=f"post-compile validation failed: {listed}",
    )


def _record_problems(pool: Pool, node: int, present: frozenset[str]) -> list[str]:
    candidate = pool.candidates[node]
    problems = []
    if pool.gates[node] is not None:
        problems.append(f"{candidate.key} is not eligible")
    for key in candidate.depends_on:
        if key not in present:
            problems.append(f"{candidate.key} lacks {key}")  # noqa: PERF401
    for other in pool.groups[node]:
        if pool.keys[other] not in present:
            problems.append(f"{candidate.key} lacks {pool.keys[other]} of its group")  # noqa: PERF401
    return problems
