"""A conversation of twelve turns, and the fair comparison of what a cache gave it.

Rules:
- Added context makes prompts longer, so counts with and without it are compared by the
  client's own content: what was added and is cached too is taken off.
- How much was added is what the provider itself counts more than without: the client's
  content is the same in both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.02
# As long as what coding agents send; OpenAI counts in steps of 128 tokens, and a step
# must not be more than the tolerance.
SYSTEM = "You are the on-call assistant of a team that runs a shop. " * 480
TOPICS = {
    "payments": "Payments are retried three times, then an operator is called.",
    "releases": "Releases stop when half of the error budget is spent.",
    "database": "The database pool has twenty connections and a waiting list.",
    "backups": "Backups run at two in the night and are restored each Monday.",
    "alerts": "Alerts that nobody acted on for a month are deleted.",
    "certificates": "Certificates are renewed thirty days before they expire.",
    "queues": "Queues longer than a thousand messages page the owner.",
    "deployments": "Deployments go to one region first and wait for an hour.",
    "invoices": "Invoices are written on the first workday of a month.",
    "warehouse": "The warehouse counts its stock on the last Friday.",
    "search": "Search is rebuilt from the catalogue within ten minutes.",
    "logins": "Logins are locked for an hour after ten wrong passwords.",
}
LOG = "\n".join(f"10:{n:02d}:07 order={41_000 + 7 * n} status=retry" for n in range(30))
# With something pasted, as users do: a question that falls out of the cache is noticed.
QUESTIONS = tuple(
    f"What do we know about {topic}, shortly?\n\n{LOG}" for topic in TOPICS
)


@dataclass(frozen=True, slots=True)
class Count:
    """What a provider counted of one request's input: all, and from the cache."""

    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Cached tokens of the client's own content in one request, without and with."""

    without: int
    own: int
    raw: int

    @property
    def is_within_tolerance(self) -> bool:
        """Whether the client loses no cache, and gets none that is not its own."""
        slack = self.without * TOLERANCE
        return (
            abs(self.own - self.without) <= slack and self.raw >= self.without - slack
        )


def compare(
    off: Sequence[Count], on: Sequence[Count], *, is_marked: bool
) -> list[Comparison]:
    """Compare request by request.

    Where the client marks what is cached (`is_marked`), a block stands behind the mark
    of the request that brought it, so it is cached from the second request after.
    """
    added = [with_it.total - bare.total for bare, with_it in zip(off, on, strict=True)]
    lag = 2 if is_marked else 1
    inside = [0] * lag + added
    return [
        Comparison(bare.cached, with_it.cached - inside[place], with_it.cached)
        for place, (bare, with_it) in enumerate(zip(off, on, strict=True))
    ]


def uncached_tokens(counts: Sequence[Count]) -> int:
    """Return the tokens of all requests that no cache gave."""
    return sum(count.total - count.cached for count in counts)
