"""Tool calls and their results on Anthropic's wire.

Rules:
- Calls of an assistant message are answered by the run of results at the start of the
  directly following user message, each exactly once.
"""

from deuz_proxy.demo.provider.exchange import Json, Refusal
from deuz_proxy.demo.provider.fields import numbered, objects, word


def check_tools(payload: Json) -> Refusal | None:
    """Refuse two tools of one name."""
    names = [word(tool.get("name")) for tool in objects(payload.get("tools"))]
    if len(set(names)) != len(names):
        return Refusal("duplicate_tool", "tools: Tool names must be unique.")
    return None


def check_pairing(messages: list[Json]) -> Refusal | None:
    """Refuse calls without results, results without calls, and a wrong order."""
    seen: set[str] = set()
    for place, message in enumerate(messages):
        refusal = _check_sides(place, message) or _check_unique(message, seen)
        if refusal is not None:
            return refusal
        following = messages[place + 1] if place + 1 < len(messages) else {}
        before = messages[place - 1] if place else {}
        refusal = _check_answered(place, message, following) or _check_known(
            place, message, before
        )
        if refusal is not None:
            return refusal
    return None


def _check_sides(place: int, message: Json) -> Refusal | None:
    alien = "tool_use" if message["role"] != "assistant" else "tool_result"
    owner = "assistant" if alien == "tool_use" else "user"
    for number, block in numbered(message["content"]):
        if block["type"] == alien:
            return Refusal(
                "tool_block_role",
                f"messages.{place}.content.{number}: `{alien}` blocks can only be in "
                f"`{owner}` messages",
            )
    return None


def _check_unique(message: Json, seen: set[str]) -> Refusal | None:
    for call_id in _call_ids(message):
        if call_id in seen:
            return Refusal("duplicate_call", "messages: `tool_use` ids must be unique")
        seen.add(call_id)
    return None


def _check_answered(place: int, message: Json, following: Json) -> Refusal | None:
    answered = _leading_results(following)
    missing = [call for call in _call_ids(message) if call not in answered]
    if not missing:
        return None
    return Refusal(
        "calls_without_results",
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks "
        f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
        "corresponding `tool_result` block in the next message.",
    )


def _check_known(place: int, message: Json, before: Json) -> Refusal | None:
    called = _call_ids(before) if before.get("role") == "assistant" else []
    answered: set[str] = set()
    for number, block in numbered(message["content"]):
        if block["type"] != "tool_result":
            continue
        call_id = word(block.get("tool_use_id"))
        where = f"messages.{place}.content.{number}"
        if call_id not in called:
            return Refusal(
                "result_without_call",
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{call_id}. Each `tool_result` block must have a corresponding "
                "`tool_use` block in the previous message.",
            )
        if call_id in answered:
            return Refusal(
                "duplicate_result",
                f"{where}: each tool_use must have a single result. Found multiple "
                f"`tool_result` blocks with id: {call_id}",
            )
        answered.add(call_id)
    return None


def _call_ids(message: Json) -> list[str]:
    return [
        word(block.get("id"))
        for block in objects(message.get("content"))
        if block["type"] == "tool_use"
    ]


def _leading_results(message: Json) -> list[str]:
    results: list[str] = []
    if message.get("role") != "user":
        return results
    for block in objects(message.get("content")):
        if block["type"] != "tool_result":
            break
        results.append(word(block.get("tool_use_id")))
    return results
