"""How OpenAI renders a Responses request: tools, instructions, held items, input.

Rules:
- Ids and states of items are not rendered: Codex gives each item a random id and still
  hits the cache. A string input equals one user message.
"""

from collections.abc import Iterator
from typing import Any

from deuz_proxy.demo.provider.exchange import Ask, Json, ProviderRequest
from deuz_proxy.demo.provider.fields import mapping, objects, whole, word
from deuz_proxy.demo.provider.prompt_chat import render_json, render_parts, texts_of
from deuz_proxy.demo.provider.tokens import Block, render_text

SCOPE_MEMBERS = ("prompt_cache_key", "text", "reasoning", "parallel_tool_calls")
_UNSEEN = {"id", "status", "encrypted_content"}


def items_of(value: Any) -> tuple[Json, ...]:
    """Return the input as items."""
    if isinstance(value, str):
        return ({"type": "message", "role": "user", "content": value},)
    return tuple(objects(value))


def render_responses(request: ProviderRequest) -> tuple[Block, ...]:
    """Return the blocks of the prompt, in the order that the cache sees."""
    payload = request.payload
    items = (*request.history, *items_of(payload.get("input")))
    blocks = [render_json(tool) for tool in objects(payload.get("tools"))]
    instructions = payload.get("instructions")
    if isinstance(instructions, str):
        blocks.append(Block(render_text("<|developer|>")))
        blocks.append(Block(render_text(instructions)))
    for item in items:
        blocks.extend(_item_blocks(item))
    return tuple(blocks)


def ask_responses(request: ProviderRequest) -> Ask:
    """Return what the model has to answer."""
    payload = request.payload
    items = (*request.history, *items_of(payload.get("input")))
    answers = [place for place, item in enumerate(items) if _is_answer(item)]
    fresh = items[answers[-1] + 1 :] if answers else items
    # Several items of the model in a row are one turn.
    turns = [n for n in answers if not n or not _is_answer(items[n - 1])]
    output_format = mapping(mapping(payload.get("text")).get("format"))
    reasoning = mapping(payload.get("reasoning"))
    return Ask(
        line=next(
            (
                text
                for item in fresh
                if item.get("role") == "user"
                for text in texts_of(item.get("content"))
            ),
            "",
        ),
        assistant_turns=len(turns),
        is_continuation=any(word(i.get("type")).endswith("_output") for i in fresh),
        tools=tuple(
            (word(tool.get("name")), mapping(tool.get("parameters")))
            for tool in objects(payload.get("tools"))
            if tool.get("type") == "function"
        ),
        choice=_choice(payload.get("tool_choice")),
        schema=mapping(output_format.get("schema")) or None,
        max_output_tokens=whole(payload.get("max_output_tokens")),
        wants_thinking=bool(reasoning.get("summary")),
    )


def _is_answer(item: Json) -> bool:
    kind = word(item.get("type"))
    is_call = kind.endswith("_call") or kind == "reasoning"
    return is_call or item.get("role") == "assistant"


def _item_blocks(item: Json) -> Iterator[Block]:
    if "role" in item:
        yield Block(render_text(f"<|{word(item['role'])}|>"))
        yield from render_parts(item.get("content"))
        return
    yield render_json({k: v for k, v in item.items() if k not in _UNSEEN})


def _choice(value: Any) -> str:
    if isinstance(value, str):
        return value
    return word(mapping(value).get("name")) or "auto"
