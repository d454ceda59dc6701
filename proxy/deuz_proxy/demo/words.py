"""What the sidecar reported of a request, in the words of the demo.

Rules:
- Only what was reported is said; what the sidecar estimated is called so.
- Words that a newcomer cannot know are explained once, in `LEGEND`.
"""

from collections.abc import Mapping
from typing import Any

LEGEND = """\
prefix     what stands at the front of a prompt, as the provider caches it
extended   the same as before, and more behind it: all of it can be read from the cache
broken     something in front changed, so what stands behind it is read anew
returned   back to a prefix that was sent before
owner      who can mend it: the client, the sidecar, time (ttl), the provider; ours are
           deliberate: record_forgotten, overflow_recovery
context    looked up for a question (initial: for the first one, fresh-turn: for a new
           one) and placed behind it, where it stays in every later request
More in docs/prefix-verdicts.md and docs/glossary.md."""
_MOST_NAMED = 3

Told = Mapping[str, Any]


def describe(told: Told) -> list[str]:
    """Return what the sidecar reported of a request, as lines to read."""
    lines = [*_overflow_lines(told), _verdict_line(told), *_compile_lines(told)]
    for placement in told.get("placements", ()):
        if placement["is_new"]:
            records = ", ".join(placement["records"])
            lines.append(f"placed behind this question: {records}")
    return lines


def count_words(number: int, one: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _compile_lines(told: Told) -> list[str]:
    compiled = told.get("compile")
    if not compiled:
        return []
    chosen = count_words(compiled["selected"], "record")
    added = f"{chosen} added, {count_words(compiled['tokens'], 'token')} (estimated)"
    lines = [
        f"context, {compiled['refresh_reason']}: "
        f"{added if compiled['selected'] else 'nothing new to add'}"
    ]
    left = [record for record in compiled["records"] if not record["is_selected"]]
    if left:
        named = [_left_out(record) for record in left[:_MOST_NAMED]]
        more = f" and {len(left) - _MOST_NAMED} more" if left[_MOST_NAMED:] else ""
        lines.append(f"left out: {', '.join(named)}{more}")
    return lines


def _left_out(record: Told) -> str:
    reason = record["reason"].replace("-", " ")
    return f"{record['source']}/{record['record_id']} ({reason})"


def _verdict_line(told: Told) -> str:
    verdict = told.get("verdict") or {}
    usage = told.get("usage") or {}
    words = f"prefix {verdict.get('verdict', 'unknown')}"
    if verdict.get("cause"):
        words += (
            f" at {_place(verdict)}: {verdict['cause']}, owner {verdict['owner']}, "
            f"{verdict['lost_tokens']} tokens lost (estimated)"
        )
    return (
        f"{words}; read {usage.get('cache_read') or 0} from the cache, "
        f"wrote {usage.get('cache_write') or 0}, "
        f"{usage.get('input_uncached') or 0} uncached"
    )


def _place(verdict: Told) -> str:
    index, offset = verdict.get("index"), verdict.get("offset")
    place = verdict["segment"] if index is None else f"{verdict['segment']} {index}"
    # Byte 0 is the body's brace: of what is gone there is no place.
    return f"{place}, byte {offset}" if offset else str(place)


def _overflow_lines(told: Told) -> list[str]:
    lines = [
        f"overflow {overflow['outcome']}: {overflow.get('requested_tokens')} tokens "
        f"asked, {overflow.get('limit_tokens')} fit (the provider's count)"
        for overflow in told.get("overflows", ())
    ]
    lines += [
        f"{compaction['layer']}: {compaction['tokens_before']} to "
        f"{compaction['tokens_after']} tokens (estimated)"
        for compaction in told.get("compactions", ())
    ]
    return lines
