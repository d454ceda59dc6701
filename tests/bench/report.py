"""From samples to what a reader wants: medians, what was added, ratios to the floor.

Rules:
- Added latency is taken from `direct` of the same round, then the median over rounds.
- A ratio compares medians of one run; figures of different runs are not comparable.
- Beside it stands its standard error, by the ratios of the single rounds: what two
  subjects differ by says nothing if it is not well above that.
"""

from math import sqrt
from statistics import median, stdev

Rounds = dict[str, dict[str, list[dict[str, float]]]]
"""Samples by cell, then by subject, one for each round."""
Summary = dict[str, dict[str, dict[str, float]]]

SHOWN = (
    ("requests_per_second", "req/s", "{:,.0f}"),
    ("cpu_ms_per_request", "CPU s/1000", "{:.3f}"),
    ("cpu_over_floor", "x floor", "{:.2f}"),
    ("cpu_over_floor_error", "+-", "{:.2f}"),
    ("added_p50_ms", "+p50 ms", "{:.3f}"),
    ("added_p99_ms", "+p99 ms", "{:.3f}"),
    ("peak_mib", "peak MiB", "{:.0f}"),
    ("events_per_second", "events/s", "{:,.0f}"),
    ("cpu_us_per_event", "CPU µs/event", "{:.1f}"),
    ("transit_p50_ms", "transit p50", "{:.3f}"),
    ("transit_p99_ms", "transit p99", "{:.3f}"),
)


def summarise(rounds: Rounds) -> Summary:
    """Return the median of each figure by cell and subject, with ratios."""
    summary: Summary = {}
    for cell, by_subject in rounds.items():
        summary[cell] = {
            subject: _take_medians(_add_latency(samples, by_subject.get("direct", [])))
            for subject, samples in by_subject.items()
        }
        floor = summary[cell].get("aio-floor", {}).get("cpu_ms_per_request")
        for subject, figures in summary[cell].items():
            if floor and "cpu_ms_per_request" in figures:
                figures["cpu_over_floor"] = figures["cpu_ms_per_request"] / floor
                ratios = _ratios(by_subject[subject], by_subject["aio-floor"])
                if len(ratios) > 1:
                    error = stdev(ratios) / sqrt(len(ratios))
                    figures["cpu_over_floor_error"] = error
    return summary


def _ratios(
    samples: list[dict[str, float]], floor: list[dict[str, float]]
) -> list[float]:
    """Return the CPU of each round in terms of the floor's in the same round."""
    return [
        sample["cpu_ms_per_request"] / beside["cpu_ms_per_request"]
        for sample, beside in zip(samples, floor, strict=True)
        if sample.get("cpu_ms_per_request") and beside.get("cpu_ms_per_request")
    ]


def format_table(summary: Summary) -> str:
    """Return the table that `make bench` prints, one block for each cell."""
    lines = []
    for cell, by_subject in summary.items():
        shown = [
            item
            for item in SHOWN
            if any(figures.get(item[0]) for figures in by_subject.values())
        ]
        titles = "".join(f"{title:>14}" for _, title, _ in shown)
        lines += ["", f"{cell:<18}{titles}"]
        for subject, figures in by_subject.items():
            values = "".join(f"{_format(figures, item):>14}" for item in shown)
            lines.append(f"  {subject:<16}{values}")
    return "\n".join(lines)


def _format(figures: dict[str, float], item: tuple[str, str, str]) -> str:
    key, _, pattern = item
    return pattern.format(figures[key]) if key in figures else "-"


def _add_latency(
    samples: list[dict[str, float]], direct: list[dict[str, float]]
) -> list[dict[str, float]]:
    added = []
    for sample, bare in zip(samples, direct, strict=False):
        if sample is bare or "failed" in sample or "failed" in bare:
            added.append(sample)
            continue
        added.append(
            {
                **sample,
                "added_p50_ms": sample["p50_ms"] - bare["p50_ms"],
                "added_p99_ms": sample["p99_ms"] - bare["p99_ms"],
            }
        )
    return added


def _take_medians(samples: list[dict[str, float]]) -> dict[str, float]:
    good = [sample for sample in samples if "failed" not in sample]
    figures = {"samples": float(len(good)), "failed": float(len(samples) - len(good))}
    for key in good[0] if good else ():
        figures[key] = median(sample[key] for sample in good)
    return figures
