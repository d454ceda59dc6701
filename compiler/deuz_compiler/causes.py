"""Why a segment changed: a closed vocabulary, told from the old and the new text.

Rules:
- A cause is a word, never an excerpt: the texts stay here.
- Without the old text the cause is the segment's general one.
"""

import re

import msgspec

from deuz_compiler.errors import NotLifted
from deuz_compiler.prefix import DIGEST_BYTES, Prefix, common_bytes
from deuz_compiler.wires.members import array_elements
from deuz_compiler.wires.rendered import rendered_list

CAUSES = (
    "model_changed",
    "parameter_changed",
    "tool_added",
    "tool_removed",
    "tools_reordered",
    "tool_edited",
    "system_added",
    "system_removed",
    "system_time",
    "system_nonce",
    "system_edited",
    "turn_edited",
    "turn_inserted",
    "turns_dropped",
    "overflow_recovery",
    "record_forgotten",
    "ledger_lost",
    "evicted",
    "ledger_changed",
    "mode_changed",
    "sidecar_changed",
    "ttl_expired",
    "provider_miss",
)

_WINDOW = 32
_AROUND = 24
_TIME = re.compile(
    rb"\d{1,2}:\d{2}|\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rb"|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    rb"|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b",
    re.IGNORECASE,
)
_EPOCH = re.compile(rb"\b1\d{9}(?:\d{3})?\b")
_NONCE = re.compile(rb"[0-9a-fA-F]{8}|\d{6}|[A-Za-z0-9_-]{16}")


def system_cause(old: bytes | None, new: bytes) -> str:
    """Tell why the system segment changed; None is "the old text is not kept"."""
    if old is None:
        return "system_edited"
    if not old or not new:
        return "system_removed" if old else "system_added"
    windows = _changed(old, new)
    if all(_TIME.search(w) or _EPOCH.search(w) for w in windows):
        return "system_time"
    is_alike = abs(len(old) - len(new)) < _WINDOW
    if is_alike and all(_NONCE.search(w) for w in windows):
        return "system_nonce"
    return "system_edited"


def tools_cause(old: bytes | None, new: bytes) -> tuple[str, int | None]:
    """Tell why the tools changed and which tool is the first that differs."""
    if old is None:
        return "tool_edited", None
    before, after = _tool_texts(old), _tool_texts(new)
    pairs = enumerate(zip(before, after, strict=False))
    shortest = min(len(before), len(after))
    first = next((i for i, (a, b) in pairs if a != b), shortest)
    names_before, names_after = _names(before), _names(after)
    if sorted(names_before) == sorted(names_after):
        is_moved = names_before != names_after
        return ("tools_reordered" if is_moved else "tool_edited"), first
    is_grown = len(names_after) > len(names_before)
    return ("tool_added" if is_grown else "tool_removed"), first


def turn_cause(old: Prefix, new: Prefix, index: int) -> str:
    """Tell why the history changed at an element, from its digests alone."""
    start = index * DIGEST_BYTES
    old_entry = old.digests[start : start + DIGEST_BYTES]
    new_entry = new.digests[start : start + DIGEST_BYTES]
    if not new_entry or new_entry in _entries(old.digests[start + DIGEST_BYTES :]):
        return "turns_dropped"
    if old_entry in _entries(new.digests[start + DIGEST_BYTES :]):
        return "turn_inserted"
    return "turn_edited"


def _entries(packed: bytes) -> tuple[bytes, ...]:
    return tuple(
        packed[at : at + DIGEST_BYTES] for at in range(0, len(packed), DIGEST_BYTES)
    )


def _changed(old: bytes, new: bytes) -> list[bytes]:
    """Return the changed middles with a little around them, to see what they are.

    Text that was only put in or taken out has one middle.
    """
    start = common_bytes(old, new)
    end = common_bytes(old[start:][::-1], new[start:][::-1])
    stops = [len(text) - end for text in (old, new)]
    if min(stops) <= start:
        return [max(old, new, key=len)[start : max(stops)]]
    return [
        text[max(0, start - _AROUND) : stop + _AROUND]
        for text, stop in zip((old, new), stops, strict=True)
    ]


def _tool_texts(text: bytes) -> list[bytes]:
    if not text.startswith(b"["):
        return []
    # As the provider sees them: a marker that moved on has not changed its tool.
    text = rendered_list(text)
    try:
        return [text[start:end] for start, end in array_elements(text)]
    except NotLifted:
        # Nested so deeply that it could be lifted, but not be read from here.
        return []


class _Function(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _Tool(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    type: str = ""
    function: _Function = _Function()


_tool = msgspec.json.Decoder(_Tool)


def _names(tools: list[bytes]) -> list[str]:
    names = []
    for text in tools:
        try:
            tool = _tool.decode(text)
        except (msgspec.DecodeError, RecursionError):
            names.append("")
            continue
        names.append(tool.name or tool.function.name or tool.type)
    return names
