"""How Ollama renders a request by the model's template, and how it cuts it to fit.

Rules:
- Tools stand in the system part. What a template does not know is not rendered.
- A prompt that does not fit loses its oldest messages, silently: system messages and
  the last message stay. With `truncate` off it is refused instead.
- The size of the window is the request's own, where it gives one.
"""

from collections.abc import Iterator
from dataclasses import replace

from deuz_proxy.demo.provider.exchange import (
    OLLAMA_CHAT,
    Ask,
    Json,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.fields import compact, mapping, objects, whole, word
from deuz_proxy.demo.provider.tokens import Block, render_media, render_text
from deuz_proxy.demo.provider.window import OVERFLOW

_TOO_LONG = (
    "the prompt is longer than the context length currently available to the model; "
    "shorten the prompt, adjust the context length in settings, or use a model with a "
    "longer context length"
)


def render_ollama(request: ProviderRequest) -> tuple[Block, ...]:
    """Return the blocks of the prompt, in the order that the cache sees."""
    payload = request.payload
    tools = [
        Block(render_text(compact(tool))) for tool in objects(payload.get("tools"))
    ]
    blocks = (b for message in _messages(request) for b in _message_blocks(message))
    return (*tools, *blocks)


def ask_ollama(request: ProviderRequest) -> Ask:
    """Return what the model has to answer."""
    payload = request.payload
    messages = _messages(request)
    answers = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    fresh = messages[answers[-1] + 1 :] if answers else messages
    schema = payload.get("format")
    return Ask(
        line=next((word(m.get("content")) for m in fresh if m["role"] == "user"), ""),
        assistant_turns=len(answers),
        is_continuation=any(m["role"] == "tool" for m in fresh),
        tools=tuple(_tools(payload)),
        schema=mapping(schema) or None,
        max_output_tokens=_limit(payload),
        wants_thinking=payload.get("think") is True,
    )


def fit_ollama(request: ProviderRequest, limit: int) -> ProviderRequest | Refusal:
    """Return the request with as many of its newest messages as fit the window."""
    limit = window_of(request, limit)
    messages = objects(request.payload.get("messages"))
    while sum(block.tokens for block in render_ollama(request)) > limit:
        if request.payload.get("truncate") is False:
            return Refusal(OVERFLOW, _TOO_LONG)
        at = next((n for n, m in enumerate(messages) if m["role"] != "system"), None)
        if request.wire != OLLAMA_CHAT or at is None or at == len(messages) - 1:
            break  # What is left is cut in the middle, by the engine below.
        messages = [*messages[:at], *messages[at + 1 :]]
        request = replace(request, payload={**request.payload, "messages": messages})
    return request


def window_of(request: ProviderRequest, limit: int) -> int:
    """Return the window of this request."""
    return whole(mapping(request.payload.get("options")).get("num_ctx")) or limit


def _messages(request: ProviderRequest) -> list[Json]:
    payload = request.payload
    if request.wire == OLLAMA_CHAT:
        return objects(payload.get("messages"))
    prompt = {"role": "user", "content": payload.get("prompt")}
    system = {"role": "system", "content": payload.get("system")}
    return [system, prompt] if payload.get("system") else [prompt]


def _message_blocks(message: Json) -> Iterator[Block]:
    yield Block(render_text(f"<|{word(message.get('role'))}|>"))
    if message.get("content"):
        yield Block(render_text(word(message["content"])))
    for image in message.get("images") or ():
        yield Block(render_media(word(image)))
    for call in objects(message.get("tool_calls")):
        yield Block(render_text(compact(call)))


def _tools(payload: Json) -> Iterator[tuple[str, Json]]:
    for tool in objects(payload.get("tools")):
        function = mapping(tool.get("function"))
        yield word(function.get("name")), mapping(function.get("parameters"))


def _limit(payload: Json) -> int | None:
    limit = whole(mapping(payload.get("options")).get("num_predict"))
    return limit if limit and limit > 0 else None
