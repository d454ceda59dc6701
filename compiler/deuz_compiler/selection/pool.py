"""The candidates of one call as numbered nodes of a graph.

Rules:
- Nodes are numbered in the order of their keys, so "by id" is "by number" everywhere.
- An edge leads to what must come along: dependencies in listed order, then the other
  members of a required group. A group is therefore whole by construction.
- A node that is placed already, or that has expired, is in no class; it still answers
  for those who depend on it.
- `costs` are what admission counts, `unpriced` what rendering adds to that.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter

import msgspec

from deuz_compiler.canonical import digest_text
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.candidate import (
    REQUIREMENTS,
    Candidate,
    Requirement,
    keys_of,
)
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.gates import Gate, gates_of


class Surroundings(msgspec.Struct, frozen=True, gc=False):
    """What a pool must know beside its candidates.

    `placed` are the keys that are on the surface already, `now` is in Unix seconds
    (None: nothing expires).
    """

    placed: frozenset[str] = frozenset()
    now: float | None = None


class Pool(msgspec.Struct, frozen=True, gc=False):
    """Candidates by number, and what the engine asks about them most.

    `missing` is, per node, the first dependency that nobody offers, or "". `absent` are
    the keys this call requires and nobody offers. `twins` are the nodes of each content
    that has several, `projections` the price of each smaller text, `groups` the members
    of each node's required group, itself among them. `digests` are the declared ones,
    or else those of the texts.
    """

    candidates: tuple[Candidate, ...]
    keys: tuple[str, ...]
    costs: tuple[int, ...]
    unpriced: tuple[int, ...]
    projections: tuple[int | None, ...]
    digests: tuple[str, ...]
    identities: tuple[str, ...]
    edges: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[int, ...], ...]
    requirements: tuple[Requirement, ...]
    gates: tuple[Gate | None, ...]
    missing: tuple[str, ...]
    is_placed: tuple[bool, ...]
    placed: frozenset[str]
    twins: Mapping[str, tuple[int, ...]]
    absent: tuple[str, ...]
    is_plain: bool = False
    """Whether each record stands for itself, and may be let in or left."""

    def __len__(self) -> int:
        """Count the candidates."""
        return len(self.keys)

    def members(self, node: int) -> tuple[int, ...]:
        """Return the node's required group, or the node alone."""
        return self.groups[node] or (node,)


def build_pool(
    candidates: Sequence[Candidate],
    policy: Policy,
    *,
    around: Surroundings,
    estimate: Callable[[str], int],
) -> Pool:
    """Number the candidates and draw their edges.

    Keys must be unique; `faults` sees to that before.

    Raises:
        MalformedInput: the estimator gives no whole number from 0.
    """
    by_key = dict(zip(keys_of(candidates), candidates, strict=True))
    keys = tuple(sorted(by_key))
    ordered = tuple([by_key[key] for key in keys])
    labels = _label_tokens(ordered, policy)
    is_rendered = policy.pricing == "rendered"
    extra = labels if is_rendered else [0] * len(labels)
    costs = tuple(
        [
            more + (c.tokens or _tokens(c.text, c.tokens, estimate))
            for c, more in zip(ordered, extra, strict=True)
        ]
    )
    unpriced = tuple([0] * len(labels) if is_rendered else labels)
    digests = tuple([c.digest or digest_text(c.text) for c in ordered])
    identities = tuple(
        [c.content_identity or d for c, d in zip(ordered, digests, strict=True)]
    )
    priced = (ordered, keys, costs, unpriced)
    told = (digests, identities)
    if not policy.required and _are_plain(ordered, keys, identities, around.placed):
        return _plain(priced, told, around.placed)
    number = {key: node for node, key in enumerate(keys)}
    groups = _groups(ordered)
    missing, edges = _edges(ordered, groups, number=number, placed=around.placed)
    # In the order of the fields: by name, each is looked for among all.
    return Pool(
        *priced,
        tuple(
            [
                None
                if c.projection is None
                else more + _tokens(c.projection, c.projection_tokens, estimate)
                for c, more in zip(ordered, extra, strict=True)
            ]
        ),
        *told,
        edges,
        groups,
        _requirements(ordered, policy.required, number=number, groups=groups),
        tuple(gates_of(ordered, around.now)),
        missing,
        tuple([key in around.placed for key in keys]),
        around.placed,
        _twins(identities),
        _absent(policy.required, number, around.placed),
    )


_look = attrgetter(
    "requirement",
    "projection",
    "depends_on",
    "is_group_required",
    "coverage_keys",
    "scope",
    "freshness",
    "authority",
    "expires_at",
    "form_rank",
    "min_rank",
)
_PLAIN = _look(Candidate(source="", kind="", record_id="", text=""))


def _are_plain(
    ordered: Sequence[Candidate],
    keys: Sequence[str],
    identities: Sequence[str],
    placed: frozenset[str],
) -> bool:
    """Tell whether each record stands for itself: most that sources offer do."""
    if len({*identities}) < len(ordered) or not placed.isdisjoint(keys):
        return False
    return [_look(candidate) for candidate in ordered] == [_PLAIN] * len(ordered)


def _plain(
    priced: tuple[
        tuple[Candidate, ...], tuple[str, ...], tuple[int, ...], tuple[int, ...]
    ],
    told: tuple[tuple[str, ...], tuple[str, ...]],
    placed: frozenset[str],
) -> Pool:
    """Return the pool of plain records: nothing is to be worked out of them."""
    count = len(priced[0])
    nothing: tuple[tuple[int, ...], ...] = ((),) * count
    requirement: Requirement = "discretionary"
    return Pool(
        *priced,
        (None,) * count,
        *told,
        nothing,
        nothing,
        (requirement,) * count,
        (None,) * count,
        ("",) * count,
        (False,) * count,
        placed,
        {},
        (),
        is_plain=True,
    )


def _label_tokens(ordered: Sequence[Candidate], policy: Policy) -> list[int]:
    """Return what rendering adds for each record, with what parts it from the next."""
    usual, between = policy.overhead.record_tokens, policy.overhead.between_tokens
    return [
        between + (usual if c.label_tokens is None else c.label_tokens) for c in ordered
    ]


def _tokens(text: str, declared: int | None, estimate: Callable[[str], int]) -> int:
    if declared is not None:
        return declared
    count = estimate(text)
    if not isinstance(count, int):
        raise MalformedInput(("estimator: count is not a whole number",))
    if count < 0:
        raise MalformedInput((f"estimator: count {count} is negative",))
    return count


def _groups(ordered: Sequence[Candidate]) -> tuple[tuple[int, ...], ...]:
    members: dict[tuple[str, str], list[int]] = {}
    for node, candidate in enumerate(ordered):
        if candidate.is_group_required and candidate.group_id is not None:
            group = (candidate.source, candidate.group_id)
            members.setdefault(group, []).append(node)
    groups: list[tuple[int, ...]] = [()] * len(ordered)
    for nodes in members.values():
        for node in nodes:
            groups[node] = tuple(nodes)
    return tuple(groups)


def _edges(
    ordered: Sequence[Candidate],
    groups: Sequence[tuple[int, ...]],
    *,
    number: Mapping[str, int],
    placed: frozenset[str],
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Return per node the first dependency nobody offers (or ""), and its edges."""
    missing = [""] * len(ordered)
    edges: list[tuple[int, ...]] = list(groups)
    for node, candidate in enumerate(ordered):
        if not candidate.depends_on:
            continue
        found: list[int] = []
        for key in candidate.depends_on:
            other = number.get(key)
            if other is not None:
                found.append(other)
            elif key not in placed:
                missing[node] = missing[node] or key
        edges[node] = (*found, *groups[node])
    return tuple(missing), tuple(edges)


def _requirements(
    ordered: Sequence[Candidate],
    required: Sequence[str],
    *,
    number: Mapping[str, int],
    groups: Sequence[tuple[int, ...]],
) -> tuple[Requirement, ...]:
    """Return the classes in force: naming a member of a group names the group."""
    classes: list[Requirement] = [candidate.requirement for candidate in ordered]
    for key in required:
        node = number.get(key)
        if node is not None and classes[node] != "mandatory":
            classes[node] = "required"
    for node, group in enumerate(groups):
        if group:
            classes[node] = min(
                [classes[other] for other in group], key=REQUIREMENTS.index
            )
    return tuple(classes)


def _twins(identities: Sequence[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the identities that more than one candidate has."""
    first: dict[str, int] = {}
    twins: dict[str, list[int]] = {}
    for node, identity in enumerate(identities):
        other = first.setdefault(identity, node)
        if other != node:
            twins.setdefault(identity, [other]).append(node)
    return {name: tuple(nodes) for name, nodes in twins.items()}


def _absent(
    required: Sequence[str], number: Mapping[str, int], placed: frozenset[str]
) -> tuple[str, ...]:
    lost = {key: None for key in required if key not in number and key not in placed}
    return tuple(sorted(lost))
