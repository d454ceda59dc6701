"""Input errors: what makes records or a policy malformed, all faults at once.

Rules:
- An input error is not a refusal: it is found before any decision.
- A fault names keys, fields and numbers, never content.
- Where the policy excludes faulty records, the first of two equal keys counts, and a
  required group that loses a member is left out whole; a faulty mandatory record is an
  error all the same, since it may not be left out in silence.
- Policies and classes are checked here too, not only where JSON is read: a misspelt
  word must not become a silent default.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import REQUIREMENTS, Candidate
from deuz_compiler.records.loading import load_record
from deuz_compiler.records.policy import Policy

MAX_ID_LENGTH = 256
MAX_PRIORITY = 1_000

# Control characters could forge lines of a block or log; surrogates are not text.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Sifted:
    """Well-formed candidates, and the others with the reason each is left out."""

    candidates: tuple[Candidate, ...]
    excluded: tuple[tuple[Candidate, str], ...]


@dataclass(frozen=True, slots=True)
class _Fault:
    position: int
    reason: str
    text: str


def sift(
    candidates: Sequence[Candidate], policy: Policy, *, placed: frozenset[str]
) -> Sifted:
    """Part the candidates into well-formed ones and others.

    Raises:
        MalformedInput: the policy is malformed; or records are, and the policy does not
            exclude such records or a mandatory one is among them.
    """
    faults = (*_record_faults(candidates), *_group_faults(candidates))
    errors = [*_policy_faults(policy)]
    if policy.faults == "raise":
        errors.extend(fault.text for fault in faults)
        errors.extend(_lost_dependencies(candidates, placed))
    else:
        errors.extend(f.text for f in faults if _is_fatal(candidates[f.position], f))
    if errors:
        raise MalformedInput(tuple(errors))
    if not faults:
        return Sifted(tuple(candidates), ())
    return _exclude(candidates, faults)


def input_faults(candidates: Sequence[Candidate], policy: Policy) -> tuple[str, ...]:
    """Return the faults of a policy and of records that may not be all there are.

    A dependency that nobody offers is none here: what offers it may not be readable.
    """
    faults = (*_record_faults(candidates), *_group_faults(candidates))
    return (*_policy_faults(policy), *[fault.text for fault in faults])


def _is_fatal(candidate: Candidate, fault: _Fault) -> bool:
    # Of an unknown class nobody can say that it may be left out.
    is_known = candidate.requirement in REQUIREMENTS
    may_go = is_known and not candidate.is_mandatory
    return fault.reason == reasons.MALFORMED and not may_go


def _exclude(candidates: Sequence[Candidate], faults: Sequence[_Fault]) -> Sifted:
    out: dict[int, str] = {}
    for fault in faults:
        out.setdefault(fault.position, fault.reason)
    for positions in _groups(candidates).values():
        # Half a group would mislead: what is left of it goes too.
        if any(out.get(place) == reasons.MALFORMED for place in positions):
            for place in positions:
                out.setdefault(place, reasons.DEPENDENCY_BLOCKED)
    kept = tuple([c for place, c in enumerate(candidates) if place not in out])
    return Sifted(kept, tuple([(candidates[p], out[p]) for p in sorted(out)]))


def _record_faults(candidates: Sequence[Candidate]) -> Iterator[_Fault]:
    seen: set[str] = set()
    for position, candidate in enumerate(candidates):
        key = candidate.key
        if key in seen:
            text = f"candidate {_shown(key)}: duplicate"
            yield _Fault(position, reasons.DUPLICATE_RECORD, text)
            continue
        seen.add(key)
        for problem in _problems(candidate):
            text = f"candidate {_shown(key)}: {problem}"
            yield _Fault(position, reasons.MALFORMED, text)


def _problems(candidate: Candidate) -> Iterator[str]:
    if not 0 < len(candidate.record_id) <= MAX_ID_LENGTH:
        yield f"id is not 1 to {MAX_ID_LENGTH} characters long"
    if _UNPRINTABLE.search(candidate.key):
        yield "id holds a control character"
    yield from _count_problems(candidate)
    if candidate.requirement not in REQUIREMENTS:
        yield f"requirement is not one of {', '.join(REQUIREMENTS)}"
    # Written so that a NaN fails it too.
    if not 0.0 <= candidate.score <= 1.0:
        yield f"score {candidate.score} is outside 0 to 1"
    if not -MAX_PRIORITY <= candidate.priority <= MAX_PRIORITY:
        yield f"priority {candidate.priority} is outside -1000 to 1000"


def _count_problems(candidate: Candidate) -> Iterator[str]:
    for name, count in (
        ("tokens", candidate.tokens),
        ("label_tokens", candidate.label_tokens),
        ("projection_tokens", candidate.projection_tokens),
    ):
        if count is not None and count < 0:
            yield f"{name} {count} is negative"
        elif count is not None and not isinstance(count, int):
            yield f"{name} is not a whole number"


def _groups(
    candidates: Sequence[Candidate],
) -> Mapping[tuple[str, str], Sequence[int]]:
    """Return the places of each required group's members, by source and group."""
    groups: dict[tuple[str, str], list[int]] = {}
    for position, candidate in enumerate(candidates):
        if candidate.group_id is not None and candidate.is_group_required:
            group = (candidate.source, candidate.group_id)
            groups.setdefault(group, []).append(position)
    return groups


def _group_faults(candidates: Sequence[Candidate]) -> Iterator[_Fault]:
    for (_, name), positions in sorted(_groups(candidates).items()):
        classes = sorted({candidates[place].requirement for place in positions})
        if classes[1:]:
            text = f"group {_shown(name)}: members of classes {', '.join(classes)}"
            yield from (_Fault(p, reasons.MALFORMED, text) for p in positions)


def _lost_dependencies(
    candidates: Sequence[Candidate], placed: frozenset[str]
) -> Iterator[str]:
    known = placed.union(candidate.key for candidate in candidates)
    for candidate in candidates:
        for key in candidate.depends_on:
            if key not in known:
                name = _shown(candidate.key)
                yield f"candidate {name}: depends on unknown {_shown(key)}"


def _policy_faults(policy: Policy) -> Iterator[str]:
    """Yield what is wrong with a policy; ranges only where every type is right."""
    fields = msgspec.to_builtins(policy)
    mistyped: list[str] = []
    load_record(Policy, fields, where="policy", faults=mistyped)
    yield from mistyped or _range_faults(policy)


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
    yield from _share_faults(policy)


def _share_faults(policy: Policy) -> Iterator[str]:
    seen: set[str] = set()
    for share in policy.shares:
        if share.kind in seen:
            yield f"policy: share {_shown(share.kind)} is given twice"
        seen.add(share.kind)
        if share.weight < 0:
            name = _shown(share.kind)
            yield f"policy: share {name} weight {share.weight} is negative"
    if policy.shares and not sum(share.weight for share in policy.shares):
        yield "policy: shares add up to nothing"


def _shown(name: str) -> str:
    """Return a name as it may stand in a message: short, printable, one line."""
    return _UNPRINTABLE.sub("?", name[:MAX_ID_LENGTH])
