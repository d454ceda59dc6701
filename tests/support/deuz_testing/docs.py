"""Docs that are made from the code: what stands between two markers of a page.

Rules:
- A page is written by hand, but for the lines between `<!-- made: NAME -->` and
  `<!-- end -->`, which `python -m deuz_testing.docs` replaces.
- A table here has no words of its own: descriptions, helps and sets come from the code.
- Nothing depends on where or when it runs: the same code makes the same pages.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from deuz_proxy.config.families import FAMILIES, THINKING_BINDING
from deuz_proxy.config.model import BUILT_IN_UPSTREAMS, Config
from deuz_proxy.observe import genai
from deuz_proxy.observe.catalog import METRICS, Label, Metric
from deuz_testing.docs_fields import Row, list_rows, list_sections

DOCS = Path(__file__).resolve().parents[3] / "docs"
_MADE = re.compile(r"(<!-- made: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MOST_LISTED = 6
# Names of the configuration and status codes: bounded, but not by a list of words.
_BOUNDED = {
    "route": "a route's `name` or path, or the upstream's name without a route; "
    "`other` for what has none",
    "model": "a family of the table of windows, a name under `models`, or `other`",
    "source": "the `id` of a configured source",
    "status": "100 to 599",
}


def main() -> None:
    """Make every page of the docs anew."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        made = remade(text)
        if made != text:
            page.write_text(made)


def remade(page: str) -> str:
    """Return the page with everything between markers made anew."""
    return _MADE.sub(lambda found: found[1] + SECTIONS[found[2]]() + found[3], page)


def table(*rows: tuple[str, ...]) -> str:
    """Return a table of Markdown; the first row is its head."""
    head, *others = rows
    lines = [_line(head), _line(("---",) * len(head)), *map(_line, others)]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _config() -> str:
    return "\n".join(_config_parts())


def _config_parts() -> Iterator[str]:
    for path, model in list_sections(Config):
        yield f"### {path}\n\n{_first_sentence(model.__doc__)}\n"
        rows = [_cells(row) for row in list_rows(model)]
        yield table(("key", "takes", "default", "what it does"), *rows)


def _cells(row: Row) -> tuple[str, ...]:
    return (f"`{row.key}`", row.takes, row.default, row.text)


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split("\n\n")[0].replace("\n", " ")


def _upstreams() -> str:
    rows = [
        (f"`{name}`", upstream.url, f"`{upstream.wire}`", f"`{upstream.placement}`")
        for name, upstream in BUILT_IN_UPSTREAMS.items()
    ]
    return table(("name", "url", "wire", "placement"), *rows)


def _windows() -> str:
    rows = [
        (
            f"`{name}`",
            _number(family.total_tokens),
            _number(family.input_tokens),
            _number(family.max_output_tokens),
            _number(family.long_total_tokens),
            "yes" if name in THINKING_BINDING else "",
        )
        for name, family in FAMILIES.items()
    ]
    head = ("family", "input and output", "input alone", "longest answer")
    return table((*head, "with the long-context beta", "binds thinking"), *rows)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _metrics() -> str:
    rows = [_metric_row(metric) for metric in METRICS]
    return table(("name", "type", "labels", "what it tells"), *rows)


def _metric_row(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{label.name}`" for label in metric.labels)
    return (f"`{metric.name}`", metric.kind, labels, metric.help)


def _labels() -> str:
    """List each label with its set of words once, and the metrics that have it so."""
    users: dict[tuple[str, str], list[str]] = {}
    for metric in METRICS:
        for label in metric.labels:
            users.setdefault((label.name, _values(label)), []).append(metric.name)
    rows = [
        (f"`{name}`", values, _shortened(metrics))
        for (name, values), metrics in users.items()
    ]
    return table(("label", "values", "on"), *rows)


def _values(label: Label) -> str:
    return _BOUNDED[label.name] if label.words is None else _joined(label.words)


def _joined(words: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _shortened(metrics: list[str]) -> str:
    # A list of twenty names says less than their number.
    is_short = len(metrics) <= _MOST_LISTED
    return _joined(metrics) if is_short else f"{len(metrics)} of the metrics above"


def _bounds() -> str:
    rows = [
        (f"`{metric.name}`", ", ".join(f"{bound:g}" for bound in metric.buckets))
        for metric in METRICS
        if metric.buckets
    ]
    return table(("histogram", "bounds"), *rows)


def _otlp() -> str:
    rows = [(f"`{m.otlp}`", f"`{m.name}`", m.unit or "1") for m in METRICS]
    return table(("over OTLP", "on `/metrics`", "unit"), *rows)


def _genai() -> str:
    rows = [(*_genai_row(metric), "newest") for metric in genai.NEWEST]
    rows += [(*_genai_row(metric), "older") for metric in genai.OLDER]
    return table(("name", "type", "attributes", "what it tells", "names"), *rows)


def _genai_row(metric: Metric) -> tuple[str, ...]:
    labels = ", ".join(f"`{label.otlp}`" for label in metric.labels)
    return (f"`{metric.otlp}`", metric.kind, labels, metric.help)


SECTIONS: Mapping[str, Callable[[], str]] = {
    "config": _config,
    "upstreams": _upstreams,
    "windows": _windows,
    "metrics": _metrics,
    "labels": _labels,
    "bounds": _bounds,
    "otlp": _otlp,
    "genai": _genai,
}


if __name__ == "__main__":
    main()
