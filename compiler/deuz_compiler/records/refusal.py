"""The named "no" to well-formed input: a result with its trace, never a guess.

Rules:
- `reason` is one of `REFUSALS`; a refusal of malformed input is an error instead.
- `blocking` names keys, group members or content identities, sorted, each once.
"""

import msgspec

from deuz_compiler.records.trace import Block

INSUFFICIENT_BUDGET = "insufficient-budget"
UNSATISFIED_DEPENDENCY = "unsatisfied-dependency"
NO_LEGAL_FORM = "no-legal-form"
UNRESOLVED_GROUP = "unresolved-group"
REQUIRED_ABSENT = "required-absent"
REQUIRED_INELIGIBLE = "required-ineligible"
SOURCE_FAILED = "source-failed"
SEARCH_EXHAUSTED = "search-exhausted"
"""The node limit was reached before a legal bundle was found or ruled out."""

REFUSALS: tuple[str, ...] = (
    INSUFFICIENT_BUDGET,
    UNSATISFIED_DEPENDENCY,
    NO_LEGAL_FORM,
    UNRESOLVED_GROUP,
    REQUIRED_ABSENT,
    REQUIRED_INELIGIBLE,
    SOURCE_FAILED,
    SEARCH_EXHAUSTED,
)


class Refusal(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Why no bundle came out.

    `block` is the obstacle where a dependency or a group is one. `required_tokens` is
    the least total at which this step would fit, where it is a matter of tokens, and
    `available_tokens` the total there is. `phase` is `compile` or `overflow-retry`.
    """

    reason: str
    blocking: tuple[str, ...] = ()
    block: Block | None = None
    detail: str = ""
    used_tokens: int = 0
    total_tokens: int = 0
    required_tokens: int | None = None
    available_tokens: int | None = None
    phase: str = "compile"

    def __str__(self) -> str:
        """Say it in one line, obstacle included."""
        return self.detail if self.block is None else f"{self.detail}: {self.block}"
