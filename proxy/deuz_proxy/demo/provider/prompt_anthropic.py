"""How Anthropic renders a request: tools, system, messages.

Rules:
- Markers are not rendered; a string equals one text block; neighbouring messages of
  one role are one turn.
- Tool choice, thinking, effort and the presence of pictures spoil the cache from the
  first message on; speed from the system text on. A parameter at its default is as
  good as absent.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deuz_proxy.demo.provider.cache import LONG_TTL_SECONDS, SHORT_TTL_SECONDS
from deuz_proxy.demo.provider.exchange import Ask, Json, ProviderRequest
from deuz_proxy.demo.provider.fields import compact, mapping, objects, whole, word
from deuz_proxy.demo.provider.rules_anthropic_markers import UNMARKED_KINDS, lifetime
from deuz_proxy.demo.provider.tokens import Block, render_media, render_text

_TTL_SECONDS = {"5m": SHORT_TTL_SECONDS, "1h": LONG_TTL_SECONDS}
_MEDIA = {"image", "document"}


def render_anthropic(request: ProviderRequest) -> tuple[Block, ...]:
    """Return the blocks of the prompt, in the order that the cache sees."""
    payload = request.payload
    tools = [_json_block(tool) for tool in objects(payload.get("tools"))]
    system = list(_blocks_of(payload.get("system")))
    messages = list(_message_blocks(objects(payload.get("messages"))))
    blocks = [
        *tools,
        *_salted(system, [payload.get("speed")]),
        *_salted(messages, _message_salt(payload)),
    ]
    return tuple(_mark_last(blocks, payload))


def ask_anthropic(request: ProviderRequest) -> Ask:
    """Return what the model has to answer."""
    payload = request.payload
    messages = [m for m in objects(payload["messages"]) if m["role"] != "system"]
    fresh = _after_last_answer(messages)
    choice = mapping(payload.get("tool_choice"))
    output_format = mapping(mapping(payload.get("output_config")).get("format"))
    return Ask(
        line=next((t for m in fresh for t in _user_texts(m["content"])), ""),
        assistant_turns=sum(m["role"] == "assistant" for m in messages),
        is_continuation=any(_has_result(m["content"]) for m in fresh),
        tools=tuple(
            (word(tool.get("name")), mapping(tool.get("input_schema")))
            for tool in objects(payload.get("tools"))
        ),
        choice=word(choice.get("name")) or word(choice.get("type")) or "auto",
        schema=mapping(output_format.get("schema")) or None,
        max_output_tokens=whole(payload.get("max_tokens")),
        wants_thinking=mapping(payload.get("thinking")).get("type") == "enabled",
    )


def _after_last_answer(messages: list[Json]) -> list[Json]:
    start = len(messages)
    while start and messages[start - 1]["role"] != "assistant":
        start -= 1
    return messages[start:]


def _user_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in objects(content):
        if block["type"] == "text":
            yield block["text"]


def _has_result(content: Any) -> bool:
    return any(block["type"] == "tool_result" for block in objects(content))


def _message_blocks(messages: list[Json]) -> Iterator[Block]:
    role = ""
    for message in messages:
        blocks = list(_blocks_of(message.get("content")))
        if blocks and message["role"] != role:
            role = message["role"]
            # The header is part of the first block: it is no position of its own.
            header = render_text(f"<|{role}|>")
            blocks[0] = replace(blocks[0], text=header + blocks[0].text)
        yield from blocks


def _blocks_of(content: Any) -> Iterator[Block]:
    if isinstance(content, str) and content:
        yield Block(render_text(content))
    for block in objects(content):
        kind = word(block.get("type"))
        if kind == "text":
            yield Block(render_text(word(block.get("text"))), _ttl(block))
        elif kind == "thinking":
            yield Block(render_text(word(block.get("thinking"))))
        elif kind in _MEDIA:
            yield Block(render_media(compact(block.get("source"))), _ttl(block))
        else:
            yield _json_block(block)


def _json_block(block: Json) -> Block:
    shown = _without_marker(block)
    text = b""
    ttl = _ttl(block)
    if block.get("type") == "tool_result":
        parts = objects(block.get("content"))
        ttl = next((t for t in map(_ttl, parts) if t), ttl)
        shown["content"] = "".join(
            word(p.get("text")) for p in parts if p.get("type") == "text"
        ) or block.get("content", "")
        media = [p for p in parts if word(p.get("type")) in _MEDIA]
        text = b"".join(render_media(compact(p.get("source"))) for p in media)
        if media and not isinstance(shown["content"], str):
            shown["content"] = ""
    return Block(render_text(compact(shown)) + text, ttl)


def _without_marker(block: Json) -> Json:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _ttl(block: Json) -> int | None:
    marker = block.get("cache_control")
    return None if marker is None else _TTL_SECONDS[lifetime(marker)]


def _message_salt(payload: Json) -> list[Any]:
    choice = payload.get("tool_choice")
    thinking = payload.get("thinking")
    effort = mapping(payload.get("output_config")).get("effort")
    has_media = any(
        word(block.get("type")) in _MEDIA
        for message in objects(payload.get("messages"))
        for block in objects(message.get("content"))
    )
    return [
        None if choice == {"type": "auto"} else choice,
        None if thinking == {"type": "disabled"} else thinking,
        None if effort == "high" else effort,
        has_media or None,
    ]


def _salted(blocks: list[Block], parameters: list[Any]) -> list[Block]:
    if not blocks or not any(parameters):
        return blocks
    salt = compact(parameters).encode("utf-8", "surrogatepass")
    return [replace(blocks[0], salt=salt), *blocks[1:]]


def _mark_last(blocks: list[Block], payload: Json) -> list[Block]:
    automatic = payload.get("cache_control")
    if automatic is None or not blocks:
        return blocks
    place = len(blocks) - 1 - _trailing_thinking(payload)
    seconds = _TTL_SECONDS[lifetime(automatic)]
    blocks[place] = replace(blocks[place], ttl_seconds=seconds)
    return blocks


def _trailing_thinking(payload: Json) -> int:
    messages = objects(payload.get("messages"))
    blocks = objects(messages[-1].get("content")) if messages else []
    count = 0
    while count < len(blocks) and word(blocks[-1 - count]["type"]) in UNMARKED_KINDS:
        count += 1
    return count
