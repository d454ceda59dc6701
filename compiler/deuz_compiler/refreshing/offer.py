"""From a decision to a compile: what is asked, what is offered, what is known of it.

Rules:
- The query is the active task's title and the newest words of the user, without blocks
  of ours, at most 2000 characters.
- A record offered anew stands for the held one of the same key: a source knows best.
- Without working memory's title and without words of a user there is no query.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts
from deuz_compiler.refreshing.decide import Decision
from deuz_compiler.wires.own import summary_body, without_own_blocks

MAX_QUERY_LENGTH = 2_000


def query_text(user_text: str, *, task_title: str = "") -> str:
    """Return what sources are asked; empty where there is nothing to ask."""
    words = without_own_blocks(user_text).strip()
    if summary_body(words) is not None:
        words = ""
    query = "\n".join([part for part in (task_title.strip(), words) if part])
    return query[:MAX_QUERY_LENGTH].strip()


def offered_candidates(
    decision: Decision, answers: Sequence[Candidate]
) -> tuple[Candidate, ...]:
    """Return the candidates of a step: what the sources said, as far as it counts."""
    taken = [candidate for candidate in answers if _counts(decision, candidate)]
    keys = {candidate.key: None for candidate in taken}
    restored = [c for c in decision.restored if c.key not in keys]
    return (*taken, *restored)


def facts_of(decision: Decision, facts: CompileFacts) -> CompileFacts:
    """Return the facts of a compile with what the decision says."""
    is_retry = decision.reason == "overflow-retry"
    return msgspec.structs.replace(
        facts,
        refresh_reason=decision.reason,
        fallback=decision.fallback or facts.fallback,
        pass_number=decision.pass_number,
        is_redacted=decision.is_redacted,
        phase="overflow-retry" if is_retry else "compile",
    )


def _counts(decision: Decision, candidate: Candidate) -> bool:
    if decision.takes == "mandatory":
        return candidate.is_mandatory and candidate.key in decision.wanted
    return decision.takes == "all"
