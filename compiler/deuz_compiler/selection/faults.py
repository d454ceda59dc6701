"""Input errors: what makes records or a policy malformed, all faults at once.

Rules:
- An input error is not a refusal: it is found before any decision.
- A fault names keys, fields and numbers, never content.
- Where the policy excludes faulty records, the first of two equal keys counts; a faulty
  mandatory record is an error all the same, since it may not be left out in silence.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deuz_compiler.errors import MalformedInput
from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
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
    if policy_faults := tuple(_policy_faults(policy)):
        raise MalformedInput(policy_faults)
    faults = (*_record_faults(candidates), *_group_faults(candidates))
    if policy.faults == "raise":
        lost = tuple(_lost_dependencies(candidates, placed))
        if faults or lost:
            raise MalformedInput((*[fault.text for fault in faults], *lost))
    if not faults:
        return Sifted(tuple(candidates), ())
    return _exclude(candidates, faults)


def _exclude(candidates: Sequence[Candidate], faults: Sequence[_Fault]) -> Sifted:
    fatal = tuple(
        fault.text
        for fault in faults
        if fault.reason == reasons.MALFORMED and candidates[fault.position].is_mandatory
    )
    if fatal:
        raise MalformedInput(fatal)
    out: dict[int, str] = {}
    for fault in faults:
        out.setdefault(fault.position, fault.reason)
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
    for name, count in (
        ("tokens", candidate.tokens),
        ("label_tokens", candidate.label_tokens),
        ("projection_tokens", candidate.projection_tokens),
    ):
        if count is not None and count < 0:
            yield f"{name} {count} is negative"
    # Written so that a NaN fails it too.
    if not 0.0 <= candidate.score <= 1.0:
        yield f"score {candidate.score} is outside 0 to 1"
    if not -MAX_PRIORITY <= candidate.priority <= MAX_PRIORITY:
        yield f"priority {candidate.priority} is outside -1000 to 1000"


def _group_faults(candidates: Sequence[Candidate]) -> Iterator[_Fault]:
    groups: dict[str, list[int]] = {}
    for position, candidate in enumerate(candidates):
        if candidate.group_id is not None and candidate.is_group_required:
            groups.setdefault(candidate.group_id, []).append(position)
    for group, positions in sorted(groups.items()):
        classes = sorted({candidates[place].requirement for place in positions})
        if classes[1:]:
            text = f"group {_shown(group)}: members of classes {', '.join(classes)}"
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
    moving = [term for term in policy.ranking if term in {"coverage", "cost"}]
    if moving and policy.judging == "at-turn":
        yield f"policy: ranking by {moving[0]} needs judging each-round"
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
