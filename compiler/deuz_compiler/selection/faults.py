"""Input errors: what makes records or a policy malformed, all faults at once.

Rules:
- An input error is not a refusal: it is found before any decision.
- A fault names keys, fields and numbers, never content.
- Where the policy excludes faulty records, the first of two equal keys counts, and a
  required group that loses a member is left out whole; a faulty mandatory record is an
  error all the same, since it may not be left out in silence. So is a mandatory record
  whose key stands for something else already.
- A record that is left out as a duplicate has no say in what becomes of its group.
- Policies and classes are checked here too, not only where JSON is read: a misspelt
  word must not become a silent default.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, is_

import msgspec

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import REQUIREMENTS, Candidate, keys_of
from deuz_compiler.records.loading import HALF_PAIR, load_record, shown
from deuz_compiler.records.policy import Overhead, Policy, Share
from deuz_compiler.selection.problems import problems_of_record

_PLAIN = Policy(budget_tokens=0)
# What `_is_usual` looks at; all other fields have their defaults.
_OWN = ("budget_tokens", "ceiling_tokens", "shares", "sources", "overhead")
_read_usual = attrgetter(*[n for n in Policy.__struct_fields__ if n not in _OWN])
_USUAL = _read_usual(_PLAIN)


class Sifted(msgspec.Struct, frozen=True, gc=False):
    """Well-formed candidates, and the others with the reason each is left out."""

    candidates: tuple[Candidate, ...]
    excluded: tuple[tuple[Candidate, str], ...]


class _Fault(msgspec.Struct, frozen=True, gc=False):
    position: int
    reason: str
    text: str
    is_fatal: bool


def sift(
    candidates: Sequence[Candidate], policy: Policy, *, placed: frozenset[str]
) -> Sifted:
    """Part the candidates into well-formed ones and others.

    Raises:
        MalformedInput: the policy is malformed; or records are, and the policy does not
            exclude such records or a mandatory one is among them.
    """
    faults = _all_faults(candidates)
    errors = [*_policy_faults(policy)]
    if policy.faults == "raise":
        errors.extend(fault.text for fault in faults)
        errors.extend(_lost_dependencies(candidates, placed))
    else:
        errors.extend(fault.text for fault in faults if fault.is_fatal)
    if errors:
        raise MalformedInput(_each_once(errors))
    if not faults:
        return Sifted(tuple(candidates), ())
    return _exclude(candidates, faults)


def input_faults(
    candidates: Sequence[Candidate],
    policy: Policy | None,
    *,
    placed: frozenset[str] | None,
) -> tuple[str, ...]:
    """Return the faults of what could be read: of a policy, if any, and of records.

    `placed` is None where not all could be read: then a dependency that nobody offers
    is no fault, since what could not be read may offer it.
    """
    found = [] if policy is None else [*_policy_faults(policy)]
    found.extend(fault.text for fault in _all_faults(candidates))
    is_strict = policy is None or policy.faults == "raise"
    if is_strict and placed is not None:
        found.extend(_lost_dependencies(candidates, placed))
    return _each_once(found)


def _all_faults(candidates: Sequence[Candidate]) -> tuple[_Fault, ...]:
    faults = tuple(_record_faults(candidates))
    return (*faults, *_group_faults(candidates, _groups(candidates, faults)))


def _each_once(faults: Sequence[str]) -> tuple[str, ...]:
    """Leave out what is said again: a group's fault is that of each member."""
    return tuple(dict.fromkeys(faults))


def _may_go(candidate: Candidate) -> bool:
    # Of an unknown class nobody can say that it may be left out.
    return candidate.requirement in REQUIREMENTS and not candidate.is_mandatory


def _exclude(candidates: Sequence[Candidate], faults: Sequence[_Fault]) -> Sifted:
    out: dict[int, str] = {}
    for fault in faults:
        out.setdefault(fault.position, fault.reason)
    for positions in _groups(candidates, faults).values():
        # Half a group would mislead: what is left of it goes too.
        if any(out.get(place) == reasons.MALFORMED for place in positions):
            for place in positions:
                out.setdefault(place, reasons.DEPENDENCY_BLOCKED)
    kept = tuple([c for place, c in enumerate(candidates) if place not in out])
    return Sifted(kept, tuple([(candidates[p], out[p]) for p in sorted(out)]))


def _record_faults(candidates: Sequence[Candidate]) -> Iterator[_Fault]:
    seen: dict[str, Candidate] = {}
    keyed = zip(keys_of(candidates), candidates, strict=True)
    for position, (key, candidate) in enumerate(keyed):
        first = seen.get(key)
        if first is not None:
            text = f"candidate {shown(key)}: duplicate"
            is_lost = candidate.is_mandatory and not _is_same(first, candidate)
            yield _Fault(position, reasons.DUPLICATE_RECORD, text, is_lost)
            continue
        seen[key] = candidate
        for problem in problems_of_record(candidate, key):
            text = f"candidate {shown(key)}: {problem}"
            is_fatal = not _may_go(candidate)
            yield _Fault(position, reasons.MALFORMED, text, is_fatal)


def _is_same(first: Candidate, again: Candidate) -> bool:
    return first.is_mandatory and first.text == again.text


def _groups(
    candidates: Sequence[Candidate], faults: Sequence[_Fault]
) -> Mapping[tuple[str, str], Sequence[int]]:
    """Return the places of each required group's members, by source and group."""
    again = {f.position: None for f in faults if f.reason == reasons.DUPLICATE_RECORD}
    groups: dict[tuple[str, str], list[int]] = {}
    for position, candidate in enumerate(candidates):
        if position in again:
            continue
        if candidate.group_id is not None and candidate.is_group_required:
            group = (candidate.source, candidate.group_id)
            groups.setdefault(group, []).append(position)
    return groups


def _group_faults(
    candidates: Sequence[Candidate],
    groups: Mapping[tuple[str, str], Sequence[int]],
) -> Iterator[_Fault]:
    for (_, name), positions in sorted(groups.items()):
        classes = sorted({candidates[place].requirement for place in positions})
        if classes[1:]:
            text = f"group {shown(name)}: members of classes {', '.join(classes)}"
            for place in positions:
                is_fatal = not _may_go(candidates[place])
                yield _Fault(place, reasons.MALFORMED, text, is_fatal)


def _lost_dependencies(
    candidates: Sequence[Candidate], placed: frozenset[str]
) -> Iterator[str]:
    known = placed.union(candidate.key for candidate in candidates)
    for candidate in candidates:
        if isinstance(candidate.depends_on, str):
            continue
        for key in candidate.depends_on:
            if key not in known:
                name = shown(candidate.key)
                yield f"candidate {name}: depends on unknown {shown(key)}"


def _policy_faults(policy: Policy) -> Iterator[str]:
    """Yield what is wrong with a policy; ranges only where every type is right."""
    mistyped: list[str] = []
    if not _is_usual(policy):
        fields = msgspec.to_builtins(policy)
        if not _is_well_typed(fields):
            load_record(Policy, fields, where="policy", faults=mistyped)
    yield from mistyped or _range_faults(policy)


def _is_usual(policy: Policy) -> bool:
    """Tell of a policy with hardly anything but defaults that its types are right.

    To look at every field takes as long as selecting among two records.
    """
    if not all(map(is_, _read_usual(policy), _USUAL)):
        return False
    shares, sources, over = policy.shares, policy.sources, policy.overhead
    if [type(shares), type(sources), type(over)] != [tuple, tuple, Overhead]:
        return False
    ceiling = policy.ceiling_tokens
    counts = [policy.budget_tokens, 0 if ceiling is None else ceiling]
    counts += [over.block_tokens, over.record_tokens, over.between_tokens]
    names = [*sources]
    for share in shares:
        if type(share) is not Share:
            return False
        counts.append(share.weight)
        names.append(share.kind)
    return {*map(type, counts)} == {int} and {*map(type, names)} <= {str}


def _is_well_typed(fields: object) -> bool:
    """Tell whether a policy can be made of these fields: at once, not one by one."""
    try:
        msgspec.convert(fields, Policy)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return False
    return True


def _range_faults(policy: Policy) -> Iterator[str]:
    for name, count in (
        ("budget_tokens", policy.budget_tokens),
        ("ceiling_tokens", policy.ceiling_tokens or 0),
        ("block_tokens", policy.overhead.block_tokens),
        ("record_tokens", policy.overhead.record_tokens),
        ("between_tokens", policy.overhead.between_tokens),
    ):
        if count < 0:
            yield f"policy: {name} {count} is negative"
    if not 0.0 <= policy.threshold <= 1.0:
        yield f"policy: threshold {policy.threshold} is outside 0 to 1"
    if policy.search_nodes < 1:
        yield f"policy: search_nodes {policy.search_nodes} is below 1"
    if policy.search == "exact" and policy.pricing != "rendered":
        yield "policy: search exact needs pricing rendered"
    if HALF_PAIR.search("".join(policy.required)):
        yield "policy: required holds half a surrogate pair"
    yield from _share_faults(policy)


def _share_faults(policy: Policy) -> Iterator[str]:
    if not policy.shares:
        return
    seen: set[str] = set()
    for share in policy.shares:
        if share.kind in seen:
            yield f"policy: share {shown(share.kind)} is given twice"
        seen.add(share.kind)
        if share.weight < 0:
            name = shown(share.kind)
            yield f"policy: share {name} weight {share.weight} is negative"
    if not sum([share.weight for share in policy.shares]):
        yield "policy: shares add up to nothing"
