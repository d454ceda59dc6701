"""When to look up context anew: one pure transition for each thing that happens.

Rules, for a step that begins:
- Due, and served past every limit: after a forget (`redacted`).
- Due on the first call (`initial`) and on request (`host-request`); when the active
  task changed (`task-changed`), or the user wrote something new that no lookup has
  answered (`fresh-turn`), but then only `min_steps` steps after the last refresh.
- Past `max_passes` a due refresh is told once (`pass-limit`), and what is placed stays.
- Without a query nobody is asked, no pass is spent, and the refresh stays due.
- A record that lost its block comes back from what the caller still holds. Without it
  an optional one waits for the next refresh, and a mandatory one is asked for at once
  (`mandatory-lost`), past every limit and without spending a pass.
- The new state counts only once the upstream accepted: until then keep the old one.
"""

from collections.abc import Collection, Sequence
from typing import Literal

import msgspec

from deuz_compiler.canonical import digest_text
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.refreshing.state import Placement, RefreshState

RefreshReason = Literal[
    "initial",
    "host-request",
    "task-changed",
    "fresh-turn",
    "redacted",
    "mandatory-lost",
    "reused",
    "overflow-retry",
]


class RefreshLimits(msgspec.Struct, frozen=True, gc=False):
    """How far apart refreshes are, and how many a conversation may have."""

    min_steps: int = 1
    max_passes: int = 8


class Step(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request as it begins.

    - `number` counts requests or assistant turns, as the caller likes, but always so.
    - `task` is the active task's id. A caller without working memory, or without a
      state that it keeps, leaves it out.
    - `surface`: the records really in the request; None where nothing can get lost.
    - `held`: what the caller retrieved before and still has.
    """

    number: int
    task: str | None = None
    has_query: bool = True
    is_fresh_turn: bool = False
    is_requested: bool = False
    is_redacted: bool = False
    surface: tuple[PlacedRecord, ...] | None = None
    held: tuple[Candidate, ...] = ()


class Decision(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is to be done for a step.

    - `takes`: which candidates count: all that sources offer, only those of `wanted`
      (keys of lost mandatory records), or none; `restored` count in any case.
    - `is_skipped`: a refresh is due, but there is nothing to ask with.
    - `pass_number`: the pass this step belongs to.
    """

    step: int
    reason: RefreshReason
    takes: Literal["all", "mandatory", "none"] = "none"
    pass_number: int = 0
    fallback: Literal["pass-limit"] | None = None
    is_skipped: bool = False
    is_redacted: bool = False
    wanted: tuple[str, ...] = ()
    restored: tuple[Candidate, ...] = ()

    @property
    def is_asking(self) -> bool:
        """Whether sources are to be asked now."""
        return self.takes != "none" and self.reason != "overflow-retry"


def start_step(
    state: RefreshState, step: Step, limits: RefreshLimits
) -> tuple[RefreshState, Decision]:
    """Decide on a step that begins."""
    state = msgspec.structs.replace(
        state,
        is_requested=state.is_requested or step.is_requested,
        is_redacted=state.is_redacted or step.is_redacted,
    )
    between = _between(state, step)
    reason = _due_reason(state, step, limits)
    if reason is None:
        return state, between
    if not step.has_query:
        skipped = msgspec.structs.replace(between, reason=reason, is_skipped=True)
        return state, skipped
    served = msgspec.structs.replace(
        state, last_step=step.number, task=step.task, is_requested=False
    )
    if state.passes >= limits.max_passes and reason != "redacted":
        return served, msgspec.structs.replace(between, fallback="pass-limit")
    served = msgspec.structs.replace(served, passes=state.passes + 1, is_redacted=False)
    return served, msgspec.structs.replace(
        between,
        reason=reason,
        takes="all",
        pass_number=served.passes,
        is_redacted=reason == "redacted",
    )


def retry_step(
    state: RefreshState, decision: Decision
) -> tuple[RefreshState, Decision]:
    """Decide on a step that did not fit: the same candidates, for a smaller request.

    What the step placed is taken back; it is placed anew by `place_step`.
    """
    kept = tuple([p for p in state.placements if p.step != decision.step])
    state = msgspec.structs.replace(state, placements=kept)
    return state, msgspec.structs.replace(decision, reason="overflow-retry")


def place_step(
    state: RefreshState,
    decision: Decision,
    selected: Sequence[Candidate],
    *,
    package: str,
) -> RefreshState:
    """Note what a step placed, and the digest of its block."""
    if not selected:
        return state
    placed = [
        Placement(
            step=decision.step,
            source=candidate.source,
            record_id=candidate.record_id,
            revision=candidate.revision,
            digest=_digest_of(candidate),
            is_mandatory=candidate.is_mandatory,
        )
        for candidate in selected
    ]
    return msgspec.structs.replace(
        state, placements=(*state.placements, *placed), package=package
    )


def request_refresh(state: RefreshState) -> RefreshState:
    """Note that the host wants the next step to look up anew."""
    return msgspec.structs.replace(state, is_requested=True)


def forget_records(state: RefreshState, keys: Collection[str]) -> RefreshState:
    """Drop records everywhere; if one had been placed, the next step looks up anew."""
    kept = tuple([p for p in state.placements if p.key not in keys])
    if len(kept) == len(state.placements):
        return state
    return msgspec.structs.replace(state, placements=kept, is_redacted=True)


def _due_reason(
    state: RefreshState, step: Step, limits: RefreshLimits
) -> RefreshReason | None:
    if state.is_redacted:
        return "redacted"
    if state.last_step is None:
        return "initial"
    if state.is_requested:
        return "host-request"
    # A count that began anew, as after a client condensed its history, is not early.
    is_early = 0 <= step.number - state.last_step < limits.min_steps
    return None if is_early else _changed_reason(state, step)


def _changed_reason(state: RefreshState, step: Step) -> RefreshReason | None:
    if step.task != state.task:
        return "task-changed"
    return "fresh-turn" if step.is_fresh_turn else None


def _between(state: RefreshState, step: Step) -> Decision:
    """Return what is done without a refresh: put back, or ask for, what got lost."""
    lost = _lost(state, step)
    held = {(each.key, _digest_of(each)): each for each in step.held} if lost else {}
    names = [(placement.key, placement.digest) for placement in lost]
    wanted = tuple(
        placement.key
        for placement, name in zip(lost, names, strict=True)
        if placement.is_mandatory and name not in held
    )
    return Decision(
        step=step.number,
        reason="mandatory-lost" if wanted else "reused",
        takes="mandatory" if wanted else "none",
        pass_number=state.passes,
        wanted=wanted,
        restored=tuple(held[name] for name in names if name in held),
    )


def _lost(state: RefreshState, step: Step) -> Sequence[Placement]:
    if step.surface is None:
        return ()
    there = {(record.key, record.digest): None for record in step.surface}
    return [p for p in state.latest if (p.key, p.digest) not in there]


def _digest_of(candidate: Candidate) -> str:
    return candidate.digest or digest_text(candidate.text)
