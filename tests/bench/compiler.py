"""How long one compile takes, beside sorting the same records by score.

Rules:
- Three sizes, each ten times the one before: one in ten records is a hub that others
  need, every other record has up to three dependencies, one in fifty is needed by its
  class and has two forms. The budget holds about a quarter of the tokens.
- The baseline does what is done without a compiler: sort by score, take what fits. It
  knows no dependencies, gates, classes, shares or reasons.
- Subjects take turns within a round; figures are medians of CPU time, which others on
  the machine disturb least; a ratio compares one run.

Usage: python -m tests.bench.compiler [--short]
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deuz_compiler import Candidate, CompileFacts, Overhead, Policy, compile_context

SIZES = (100, 1_000, 10_000)
ROUNDS = {100: 41, 1_000: 15, 10_000: 5}
FACTS = CompileFacts()
BASELINE = "sort by score"


@dataclass(frozen=True, slots=True)
class Timing:
    """One subject at one size: the median, and what it is in terms of others."""

    subject: str
    size: int
    milliseconds: float
    over_baseline: float
    growth: float | None
    """How many times as long as at a tenth of the size; None at the smallest."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compiler")
    parser.add_argument("--short", action="store_true", help="a third of the rounds")
    print(format_timings(measure(is_short=parser.parse_args().short)))
    return 0


def measure(*, is_short: bool = False) -> tuple[Timing, ...]:
    """Time every subject at every size."""
    medians: dict[tuple[str, int], float] = {}
    for size in SIZES:
        candidates = make_candidates(size)
        rounds = max(3, ROUNDS[size] // 3) if is_short else ROUNDS[size]
        runs = make_runs(candidates)
        taken: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                start = time.process_time()
                run()
                taken[name].append((time.process_time() - start) * 1e3)
        for name, samples in taken.items():
            medians[name, size] = statistics.median(samples)
    return tuple(
        Timing(
            subject=name,
            size=size,
            milliseconds=median,
            over_baseline=median / medians[BASELINE, size],
            growth=_growth(medians, name, size),
        )
        for (name, size), median in medians.items()
    )


def _growth(
    medians: dict[tuple[str, int], float], name: str, size: int
) -> float | None:
    before = medians.get((name, size // 10))
    return None if before is None else medians[name, size] / before


def make_runs(candidates: Sequence[Candidate]) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    budget_tokens = sum(candidate.tokens or 0 for candidate in candidates) // 4
    policy = Policy(budget_tokens=budget_tokens, overhead=Overhead(20, 8, 1))
    moving = Policy(
        budget_tokens=budget_tokens,
        overhead=Overhead(20, 8, 1),
        ranking=("score", "coverage", "cost"),
    )
    exact = Policy(
        budget_tokens=budget_tokens, overhead=Overhead(20, 8, 1), search="exact"
    )
    return {
        BASELINE: lambda: take_by_score(candidates, budget_tokens),
        "greedy": lambda: compiled(candidates, policy),
        "greedy, by cost": lambda: compiled(candidates, moving),
        "exact": lambda: compiled(candidates, exact),
    }


def compiled(candidates: Sequence[Candidate], policy: Policy) -> object:
    """Compile once; a refusal would be another workload than the one described."""
    compilation = compile_context(candidates, policy, facts=FACTS, estimate=len)
    if compilation.refusal is not None:
        raise RuntimeError(str(compilation.refusal))
    return compilation


def take_by_score(
    candidates: Sequence[Candidate], budget_tokens: int
) -> list[Candidate]:
    """Sort, and take what fits: what a program does that has no compiler."""
    taken = []
    left = budget_tokens
    for candidate in sorted(candidates, key=lambda c: (-c.score, c.key)):
        cost = candidate.tokens or 0
        if cost <= left:
            left -= cost
            taken.append(candidate)
    return taken


def make_candidates(size: int) -> tuple[Candidate, ...]:
    """Return a pool that is the same in every run."""
    chance = random.Random(size)
    hubs = size // 10
    found = []
    for number in range(size):
        # Two forms of one content: 2n and 2n + 1, both behind the hubs.
        is_form = number >= hubs and number // 2 % 50 == 0
        others = [] if number < hubs else chance.choices(range(hubs), k=3)
        wanted = dict.fromkeys(others[: chance.randint(0, 3)])
        found.append(
            Candidate(
                source="docs",
                kind="rag",
                record_id=f"r{number}",
                text=f"record {number}",
                tokens=chance.randint(20, 400),
                score=chance.random(),
                requirement="required" if is_form else "discretionary",
                content_identity=f"content {number // 2}" if is_form else "",
                depends_on=tuple([f"docs/r{hub}" for hub in wanted]),
                coverage_keys=(f"topic {number % 37}",),
            )
        )
    return tuple(found)


def format_timings(timings: Sequence[Timing]) -> str:
    """Return the table that is printed."""
    head = f"{'compile':<18}{'records':>9}{'ms':>10}{'x sort':>9}{'x for 10x':>11}"
    lines = [head]
    for item in timings:
        growth = "-" if item.growth is None else f"{item.growth:.1f}"
        lines.append(
            f"  {item.subject:<16}{item.size:>9,}{item.milliseconds:>10.3f}"
            f"{item.over_baseline:>9.1f}{growth:>11}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
