"""Mandatory, then required content: what must be there, in its cheapest legal form.

Rules:
- Mandatory goes by content identity. Of its eligible forms, the one that would add the
  least enters, ties by id: if that is too dear all are, and if it is blocked the whole
  is refused, since a dearer form would be a guess.
- Required groups come before single records; a group enters whole or refuses.
- A richer form does not enter merely because it would fit.
- A refusal is returned, not raised; what was decided until then stays recorded.
"""

from collections.abc import Iterable, Sequence

from deuz_compiler.records import reasons
from deuz_compiler.records.refusal import (
    INSUFFICIENT_BUDGET,
    NO_LEGAL_FORM,
    REQUIRED_INELIGIBLE,
    UNRESOLVED_GROUP,
    UNSATISFIED_DEPENDENCY,
    Refusal,
)
from deuz_compiler.records.trace import Block
from deuz_compiler.selection.tally import Tally


def admit_needs(tally: Tally) -> Refusal | None:
    """Admit mandatory and required content; return why it cannot be, if it cannot."""
    requirements = tally.pool.requirements
    if "mandatory" in requirements and (refusal := _admit_mandatory(tally)):
        return refusal
    return _admit_required(tally) if "required" in requirements else None


def mandatory_identities(tally: Tally) -> dict[str, list[int]]:
    """Return the forms of each mandatory content that is not over, by identity."""
    pool = tally.pool
    nodes = [
        node
        for node, requirement in enumerate(pool.requirements)
        if requirement == "mandatory" and not _is_over(tally, node)
    ]
    return by_identity(tally, nodes)


def required_units(tally: Tally) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the required groups, and the required records that stand alone.

    A group is needed as long as one of its members is eligible and not placed, and is
    met only when the contents of all are in: half of it would mislead.
    """
    pool = tally.pool
    groups: dict[tuple[int, ...], None] = {}
    singles = []
    for node, requirement in enumerate(pool.requirements):
        if requirement != "required" or pool.gates[node] or pool.is_placed[node]:
            continue
        if pool.groups[node]:
            groups[pool.groups[node]] = None
        elif is_open(tally, node):
            singles.append(node)
    return [group for group in groups if not _is_met(tally, group)], singles


def by_identity(tally: Tally, nodes: Iterable[int]) -> dict[str, list[int]]:
    """Collect nodes by content identity, identities in order."""
    identities = tally.pool.identities
    forms: dict[str, list[int]] = {}
    for node in nodes:
        forms.setdefault(identities[node], []).append(node)
    return dict(sorted(forms.items()))


def is_open(tally: Tally, node: int) -> bool:
    """Whether a node is undecided and its content not in by another form."""
    return (
        node not in tally.decisions
        and tally.pool.identities[node] not in tally.identities
    )


def content_name(tally: Tally, forms: Sequence[int]) -> str:
    """Name a content for people: its identity, or the key where that is a digest."""
    candidate = tally.pool.candidates[forms[0]]
    return candidate.content_identity or candidate.key


def ineligible(tally: Tally, forms: Sequence[int]) -> Refusal | None:
    """Return why mandatory content has no eligible form, if it has none."""
    identity = content_name(tally, forms)
    codes = [gate.code for node in forms if (gate := tally.pool.gates[node])]
    if len(codes) < len(forms):
        return None
    if codes == [reasons.BELOW_FLOOR] * len(codes):
        detail = f"mandatory {identity}: all forms violate floor"
        return Refusal(reason=NO_LEGAL_FORM, blocking=(identity,), detail=detail)
    detail = f"mandatory {identity}: no hard-eligible form"
    return Refusal(reason=REQUIRED_INELIGIBLE, blocking=(identity,), detail=detail)


def _is_met(tally: Tally, group: Iterable[int]) -> bool:
    identities = tally.pool.identities
    return all(identities[node] in tally.identities for node in group)


def _is_over(tally: Tally, node: int) -> bool:
    gate = tally.pool.gates[node]
    return gate is not None and gate.code == reasons.EXPIRED


def _admit_mandatory(tally: Tally) -> Refusal | None:
    for identity, forms in mandatory_identities(tally).items():
        if identity in tally.identities:
            continue
        if refusal := ineligible(tally, forms):
            return refusal
        if refusal := _admit_mandatory_form(tally, forms):
            return refusal
    return None


def _admit_mandatory_form(tally: Tally, forms: Sequence[int]) -> Refusal | None:
    identity = content_name(tally, forms)
    eligible = [node for node in forms if tally.pool.gates[node] is None]
    cost, node = _cheapest(tally, eligible)
    if not tally.fits(cost):
        return Refusal(
            reason=INSUFFICIENT_BUDGET,
            blocking=(identity,),
            detail=f"mandatory {identity} closure exceeds remaining budget",
            required_tokens=tally.used + cost,
        )
    if block := _enter(tally, tally.pool.members(node), stage="mandatory"):
        return Refusal(
            reason=UNSATISFIED_DEPENDENCY,
            blocking=(identity,),
            block=block,
            detail=f"mandatory {identity} blocked",
        )
    return None


def _admit_required(tally: Tally) -> Refusal | None:
    groups, singles = required_units(tally)
    if refusal := _admit_required_groups(tally, groups):
        return refusal
    for identity, forms in by_identity(tally, singles).items():
        if identity in tally.identities:
            continue
        if refusal := _admit_required_form(tally, forms):
            return refusal
    return None


def _admit_required_groups(
    tally: Tally, groups: Iterable[tuple[int, ...]]
) -> Refusal | None:
    for members in groups:
        nodes = tally.added(members)
        keys = tuple([tally.pool.keys[node] for node in members])
        if block := tally.block(nodes):
            return Refusal(
                reason=UNRESOLVED_GROUP,
                blocking=keys,
                block=block,
                detail="required group cannot be satisfied",
            )
        cost = tally.cost(nodes)
        if not tally.fits(cost):
            return Refusal(
                reason=UNRESOLVED_GROUP,
                blocking=keys,
                detail=f"required group exceeds remaining budget: {', '.join(keys)}",
                required_tokens=tally.used + cost,
            )
        tally.commit(nodes, members, stage="required", reason=reasons.REQUIRED)
    return None


def _admit_required_form(tally: Tally, forms: Sequence[int]) -> Refusal | None:
    identity = content_name(tally, forms)
    cost, node = _cheapest(tally, forms)
    if not tally.fits(cost):
        return Refusal(
            reason=INSUFFICIENT_BUDGET,
            blocking=(identity,),
            detail=f"required {identity}: no fitting legal form",
            required_tokens=tally.used + cost,
        )
    if block := _enter(tally, (node,), stage="required"):
        return Refusal(
            reason=UNSATISFIED_DEPENDENCY,
            blocking=(tally.pool.keys[node],),
            block=block,
            detail="required form blocked",
        )
    for other in forms:
        if other != node:
            tally.reject(other, reasons.DUPLICATE_CONTENT)
    return None


def _cheapest(tally: Tally, nodes: Iterable[int]) -> tuple[int, int]:
    """Return (what the node's unit would add, node) of the form that adds the least."""
    pool = tally.pool
    return min([(tally.cost(tally.added(pool.members(n))), n) for n in nodes])


def _enter(tally: Tally, members: tuple[int, ...], *, stage: str) -> Block | None:
    """Let a unit in, or return what keeps it out."""
    nodes = tally.added(members)
    block = tally.block(nodes)
    if block is None:
        tally.commit(nodes, members, stage=stage, reason=stage)
    return block
