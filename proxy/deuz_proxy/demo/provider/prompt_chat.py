"""How OpenAI renders a chat request: tools, then the messages as they stand.

Rules:
- Markers (`prompt_cache_breakpoint`) are not rendered; a string equals one text part.
- Model, routing key, output format, verbosity, effort and parallel calls are the scope
  of the cache: a change of one of them starts a new prefix.
"""

from collections.abc import Iterator
from typing import Any

from deuz_proxy.demo.provider.exchange import Ask, Json, ProviderRequest
from deuz_proxy.demo.provider.fields import compact, mapping, objects, whole, word
from deuz_proxy.demo.provider.tokens import Block, render_media, render_text

_SCOPE_MEMBERS = (
    "prompt_cache_key",
    "response_format",
    "verbosity",
    "reasoning_effort",
    "parallel_tool_calls",
)
_MEDIA = {"image_url", "input_audio", "file", "input_image", "input_file"}


def render_chat(request: ProviderRequest) -> tuple[Block, ...]:
    """Return the blocks of the prompt, in the order that the cache sees."""
    payload = request.payload
    tools = [render_json(tool) for tool in objects(payload.get("tools"))]
    messages = objects(payload.get("messages"))
    return (*tools, *(block for m in messages for block in _message_blocks(m)))


def scope_of(payload: Json, members: tuple[str, ...] = _SCOPE_MEMBERS) -> str:
    """Return the parameters that the cache depends on, as text."""
    return compact([payload.get(name) for name in members])


def ask_chat(request: ProviderRequest) -> Ask:
    """Return what the model has to answer."""
    payload = request.payload
    messages = objects(payload["messages"])
    answers = [n for n, m in enumerate(messages) if m["role"] == "assistant"]
    fresh = messages[answers[-1] + 1 :] if answers else messages
    limit = payload.get("max_completion_tokens", payload.get("max_tokens"))
    output_format = mapping(payload.get("response_format"))
    return Ask(
        line=next(
            (t for m in fresh if m["role"] == "user" for t in texts_of(m["content"])),
            "",
        ),
        assistant_turns=len(answers),
        is_continuation=any(m["role"] == "tool" for m in fresh),
        tools=tuple(
            (word(entry.get("name")), mapping(entry.get("parameters")))
            for tool in objects(payload.get("tools"))
            if (entry := mapping(tool.get("function")))
        ),
        choice=_choice(payload.get("tool_choice")),
        schema=mapping(mapping(output_format.get("json_schema")).get("schema")) or None,
        max_output_tokens=whole(limit),
        wants_thinking=False,
    )


def texts_of(content: Any) -> Iterator[str]:
    """Yield the texts of a string or of a list of parts."""
    if isinstance(content, str):
        yield content
    for part in objects(content):
        if isinstance(part.get("text"), str):
            yield part["text"]


def render_parts(content: Any) -> Iterator[Block]:
    """Yield the blocks of a string or of a list of parts."""
    if isinstance(content, str) and content:
        yield Block(render_text(content))
    for part in objects(content):
        if isinstance(part.get("text"), str):
            yield Block(render_text(part["text"]))
        elif part.get("type") in _MEDIA:
            yield Block(render_media(compact(_unmarked(part))))
        else:
            yield render_json(part)


def render_json(value: Json) -> Block:
    """Return a block that holds the object as it came, without its marker."""
    return Block(render_text(compact(_unmarked(value))))


def _unmarked(value: Json) -> Json:
    return {k: v for k, v in value.items() if k != "prompt_cache_breakpoint"}


def _message_blocks(message: Json) -> Iterator[Block]:
    name = word(message.get("name")) or word(message.get("tool_call_id"))
    yield Block(render_text(f"<|{word(message.get('role'))}|>{name}"))
    yield from render_parts(message.get("content"))
    for call in objects(message.get("tool_calls")):
        yield render_json(call)


def _choice(value: Any) -> str:
    if isinstance(value, str):
        return value
    return word(mapping(mapping(value).get("function")).get("name")) or "auto"
