r"""Write working memory as one block of text, within a budget, to end a request.

Rules:
- What is critical is written in full, past the budget if need be, never past the
  ceiling: there it is refused, with both numbers.
- The rest enters in its fill order while there is room; one that is too large does not
  keep smaller ones out. What is left out is counted in the block and in the entries.
- The same snapshot and budget give the same bytes: no time, no counter of requests.
- One opener and one closer, whatever stands in texts: every `<` is written `&lt;`, an
  `&` only where it would read as an escape, invisible characters as `&#x..;`.
- One line per item at the margin; further lines of a text are indented by four blanks,
  an item's own detail by two: no text can pose as another item, or as a detail.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from deuz_compiler.canonical import digest_text
from deuz_compiler.records import reasons
from deuz_compiler.records.manifest import ManifestEntry
from deuz_compiler.records.refusal import INSUFFICIENT_BUDGET, Refusal
from deuz_compiler.wires.own import TAIL_TAG
from deuz_compiler.working_memory.fill import (
    FILLING,
    Entry,
    critical_entries,
    filling_entries,
)
from deuz_compiler.working_memory.snapshot import Snapshot

SOURCE = "working-memory"

NOTE = (
    "Notes on the task, as they stand now. Only the newest copy counts: it replaces"
    " every earlier one. The application sets goal, constraints and tasks; what is"
    " proposed is not confirmed."
)
CLOSER = f"</{TAIL_TAG}>"

_SECTIONS = ("goal", "constraints", "active_task", *FILLING)
_SINGULAR: Mapping[str, str] = {
    "constraints": "constraint",
    "active_task": "task",
    "tasks": "task",
    "decisions": "decision",
    "questions": "question",
    "attempts": "attempt",
    "hypotheses": "hypothesis",
    "observations": "observation",
}
_DETAILS: Mapping[str, str] = {"decisions": "rationale", "questions": "answer"}

# The same characters as in a block of records, which a test pins.
_INVISIBLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060\u2066-\u2069\ufeff"
    r"\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef"
)
_ESCAPED = re.compile(rf"<|&(?=(?:lt|amp|#x[0-9a-f]+);)|[{_INVISIBLE}]")
_NAMED = {"<": "&lt;", "&": "&amp;"}

Estimate = Callable[[str], int]


class Tail(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Working memory as text, empty where there is nothing to show.

    `entries` accounts for every item that may be shown. `required_tokens` is what the
    critical part alone costs. With a `refusal` there is no text.
    """

    text: str = ""
    tokens: int = 0
    required_tokens: int = 0
    entries: tuple[ManifestEntry, ...] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class _Line:
    """An entry as it is written, and what that costs."""

    entry: Entry
    text: str
    tokens: int


@dataclass(frozen=True, slots=True)
class _Page:
    """What may be shown; `shown` below are places in `filling`, in fill order."""

    snapshot: Snapshot
    critical: tuple[_Line, ...]
    filling: tuple[_Line, ...]


def render_tail(
    snapshot: Snapshot,
    *,
    budget_tokens: int,
    ceiling_tokens: int | None = None,
    estimate: Estimate,
    phase: Literal["compile", "overflow-retry"] = "compile",
) -> Tail:
    """Return the tail within the budget; the ceiling is what the request leaves free.

    The tokens are at most the budget, or what the critical part costs if that is more.
    """
    page = _Page(
        snapshot,
        critical=_lines(critical_entries(snapshot), estimate),
        filling=_lines(filling_entries(snapshot), estimate),
    )
    least = _written(page, ())
    least_tokens = estimate(least)
    required = least_tokens if page.critical else 0
    if ceiling_tokens is not None and required > ceiling_tokens:
        return _refused(page, required, ceiling_tokens, phase)
    room = budget_tokens
    if ceiling_tokens is not None:
        room = min(room, ceiling_tokens)
    fitting = _fitting(page, room, least_tokens, estimate)
    shown = list(fitting)
    # Prices of single lines need not add up to the price of the whole.
    while shown and estimate(_written(page, shown)) > room:
        shown.pop()
    text = _written(page, shown) if page.critical or shown else ""
    return Tail(
        text=text,
        tokens=estimate(text) if text else 0,
        required_tokens=required,
        entries=_account(page, shown, fitting),
    )


def _lines(entries: Iterable[Entry], estimate: Estimate) -> tuple[_Line, ...]:
    lines = [(entry, _line(entry)) for entry in entries]
    return tuple([_Line(entry, line, estimate(line)) for entry, line in lines])


def _fitting(
    page: _Page, room: int, least_tokens: int, estimate: Estimate
) -> list[int]:
    """Return what is likely to fit beside what is always there."""
    everything = list(range(len(page.filling)))
    # All of it needs no line that counts what is left out.
    if estimate(_written(page, everything)) <= room:
        return everything
    left, end_tokens = room - least_tokens, estimate("\n")
    opened: dict[str, None] = {}
    fitting = []
    for place, line in enumerate(page.filling):
        section = line.entry.section
        tokens = line.tokens + end_tokens
        if section not in opened:
            tokens += estimate(f"<{section}>\n</{section}>\n")
        if tokens <= left:
            left -= tokens
            opened[section] = None
            fitting.append(place)
    return fitting


def _written(page: _Page, shown: Sequence[int]) -> str:
    lines = [*page.critical, *[page.filling[place] for place in shown]]
    written = [f'<{TAIL_TAG} revision="{page.snapshot.revision}">', NOTE]
    for section in _SECTIONS:
        inside = [line for line in lines if line.entry.section == section]
        if section == "goal":
            written += [line.text for line in inside]
        elif inside:
            listed = _in_list_order(page, inside)
            texts = [line.text for line in listed]
            written += [f"<{section}>", *texts, f"</{section}>"]
    kept = dict.fromkeys(shown)
    left = [line for place, line in enumerate(page.filling) if place not in kept]
    return "\n".join([*written, *_left_out(left), CLOSER])


def _in_list_order(page: _Page, lines: Sequence[_Line]) -> Iterable[_Line]:
    """Return a plan in the order the host gave it, not in the order it fills."""
    if lines[0].entry.section != "tasks":
        return lines
    by_id = {line.entry.item.id: line for line in lines}
    return [by_id[t.id] for t in page.snapshot.tasks.items if t.id in by_id]


def _left_out(lines: Sequence[_Line]) -> list[str]:
    sections = [line.entry.section for line in lines]
    counts = [f"{name} {sections.count(name)}" for name in FILLING if name in sections]
    if not counts:
        return []
    return [f"<left_out>Kept, but without room here: {', '.join(counts)}.</left_out>"]


def _line(entry: Entry) -> str:
    item = entry.item
    if entry.section == "goal":
        return f"<goal>{_escape(item.text, 2)}</goal>"
    status = f" {item.status}:" if item.status else ""
    line = f"- [{_escape(item.id, 4)}]{status} {_escape(item.text, 4)}"
    if not item.detail:
        return line
    label = _DETAILS.get(entry.section, "detail")
    return f"{line}\n  {label}: {_escape(item.detail, 4)}"


def _escape(text: str, indent: int) -> str:
    """Return the text as it may stand in the block, its further lines indented."""
    safe = _ESCAPED.sub(_written_escape, text.replace("\r\n", "\n"))
    return safe.replace("\n", "\n" + " " * indent)


def _written_escape(found: re.Match[str]) -> str:
    character = found[0]
    return _NAMED.get(character) or f"&#x{ord(character):x};"


def _refused(page: _Page, required: int, available: int, phase: str) -> Tail:
    refusal = Refusal(
        reason=INSUFFICIENT_BUDGET,
        blocking=tuple(sorted(_record_id(line.entry) for line in page.critical)),
        detail="what is critical in working memory does not fit",
        total_tokens=available,
        required_tokens=required,
        available_tokens=available,
        phase=phase,
    )
    lines = (*page.critical, *page.filling)
    account = tuple([_entry(line, reasons.REFUSED) for line in lines])
    return Tail(required_tokens=required, entries=account, refusal=refusal)


def _account(
    page: _Page, shown: Sequence[int], fitting: Sequence[int]
) -> tuple[ManifestEntry, ...]:
    """Return every item once: what is shown in fill order, then what is not."""
    why = dict.fromkeys(range(len(page.filling)), reasons.OVER_BUDGET)
    why |= dict.fromkeys(fitting, reasons.RENDER_OVERRUN)
    why |= dict.fromkeys(shown, reasons.RANKED)
    entries = [_entry(line, reasons.MANDATORY) for line in page.critical]
    entries += [_entry(page.filling[place], why[place]) for place in why]
    return tuple(sorted(entries, key=lambda entry: not entry.is_selected))


def _entry(line: _Line, reason: str) -> ManifestEntry:
    entry = line.entry
    return ManifestEntry(
        source=SOURCE,
        kind=SOURCE,
        record_id=_record_id(entry),
        revision=str(entry.item.revision),
        digest=digest_text(line.text),
        tokens=line.tokens,
        is_selected=reason in reasons.SELECTED_REASONS,
        reason=reason,
        requirement="discretionary" if entry.section in FILLING else "mandatory",
    )


def _record_id(entry: Entry) -> str:
    if entry.section == "goal":
        return "goal"
    return f"{_SINGULAR[entry.section]}/{entry.item.id}"
