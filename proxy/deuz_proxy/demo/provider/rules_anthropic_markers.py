"""Cache markers on Anthropic's wire: where, how many, in which order.

Rules:
- At most four, counted over tools, system, messages and the parts of tool results;
  the automatic one of the whole request takes a place too.
- No marker on thinking or on empty text; a longer lifetime never behind a shorter one
  in the order tools, system, messages.
"""

from collections.abc import Iterator
from typing import Any

from deuz_proxy.demo.provider.exchange import Json, Refusal
from deuz_proxy.demo.provider.fields import mapping, numbered, objects, word

MAX_MARKERS = 4
LIFETIMES = ("5m", "1h")
UNMARKED_KINDS = frozenset({"thinking", "redacted_thinking"})


def check_markers(payload: Json) -> Refusal | None:
    """Refuse markers that the provider would refuse."""
    found: list[tuple[str, str]] = []
    for where, block in _places(payload):
        marker = block.get("cache_control")
        if marker is None:
            continue
        refusal = _check_marker(where, block, marker)
        if refusal is not None:
            return refusal
        found.append((where, lifetime(marker)))
    return _check_count(payload, found) or _check_order(found)


def lifetime(marker: Any) -> str:
    """Return the lifetime that a marker asks for."""
    return word(mapping(marker).get("ttl")) or LIFETIMES[0]


def _places(payload: Json) -> Iterator[tuple[str, Json]]:
    for number, tool in numbered(payload.get("tools")):
        yield f"tools.{number}", tool
    for number, block in numbered(payload.get("system")):
        yield f"system.{number}", block
    for place, message in numbered(payload.get("messages")):
        for number, block in numbered(message.get("content")):
            where = f"messages.{place}.content.{number}"
            yield where, block
            if block.get("type") == "tool_result":
                for inner, part in numbered(block.get("content")):
                    yield f"{where}.tool_result.content.{inner}", part


def _check_marker(where: str, block: Json, marker: Any) -> Refusal | None:
    kind = word(block.get("type"))
    if kind in UNMARKED_KINDS:
        return Refusal(
            "marker_on_thinking",
            f"{where}.{kind}.cache_control: Extra inputs are not permitted",
        )
    if kind == "text" and not block.get("text"):
        return Refusal(
            "marker_on_empty_text",
            f"{where}: cache_control cannot be set for empty text blocks",
        )
    if mapping(marker).get("type") != "ephemeral":
        return Refusal(
            "marker_type", f"{where}.cache_control.type: Input should be 'ephemeral'"
        )
    if lifetime(marker) not in LIFETIMES:
        return Refusal(
            "marker_lifetime",
            f"{where}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'",
        )
    return None


def _check_count(payload: Json, found: list[tuple[str, str]]) -> Refusal | None:
    automatic = payload.get("cache_control")
    if automatic is not None:
        own = _last_block(payload).get("cache_control")
        if own is not None and lifetime(own) != lifetime(automatic):
            return Refusal(
                "marker_conflict",
                "cache_control: the last cacheable block already has a cache_control "
                "with a different ttl",
            )
        if own is None:
            found.append(("cache_control", lifetime(automatic)))
    if len(found) <= MAX_MARKERS:
        return None
    return Refusal(
        "too_many_markers",
        f"A maximum of {MAX_MARKERS} blocks with cache_control may be provided. "
        f"Found {len(found)}.",
    )


def _last_block(payload: Json) -> Json:
    """Return the block that the automatic marker stands on; a string reads as {}."""
    contents = [m.get("content") for m in objects(payload.get("messages"))]
    for content in [*contents[::-1], payload.get("system"), payload.get("tools")]:
        if isinstance(content, str) and content:
            return {}
        for block in objects(content)[::-1]:
            if word(block.get("type")) not in UNMARKED_KINDS:
                return block
    return {}


def _check_order(found: list[tuple[str, str]]) -> Refusal | None:
    has_short = False
    for where, ttl in found:
        if ttl == LIFETIMES[0]:
            has_short = True
        elif has_short:
            return Refusal(
                "marker_order",
                f"{where}.cache_control.ttl: a ttl='1h' cache_control block must not "
                "come after a ttl='5m' cache_control block. Note that blocks are "
                "processed in the following order: `tools`, `system`, `messages`.",
            )
    return None
