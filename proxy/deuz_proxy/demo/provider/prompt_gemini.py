"""How Gemini renders a request: system instruction and tools, then the contents."""

from collections.abc import Iterator

from deuz_proxy.demo.provider.exchange import Ask, Json, ProviderRequest
from deuz_proxy.demo.provider.fields import compact, mapping, objects, whole, word
from deuz_proxy.demo.provider.rules_gemini import (
    member,
    parts_of,
    parts_with,
    role_of,
    turns_of,
)
from deuz_proxy.demo.provider.tokens import Block, render_media, render_text

_UNSEEN = {"thoughtSignature", "thought_signature"}


def render_gemini(request: ProviderRequest) -> tuple[Block, ...]:
    """Return the blocks of the prompt, in the order that the cache sees."""
    payload = request.payload
    system = mapping(member(payload, "systemInstruction"))
    blocks = list(_part_blocks(system))
    tools = objects(payload.get("tools"))
    blocks.extend(Block(render_text(compact(tool))) for tool in tools)
    for turn in turns_of(payload):
        blocks.append(Block(render_text(f"<|{word(turn.get('role')) or 'user'}|>")))
        blocks.extend(_part_blocks(turn))
    return tuple(blocks)


def ask_gemini(request: ProviderRequest) -> Ask:
    """Return what the model has to answer."""
    payload = request.payload
    turns = turns_of(payload)
    roles = [role_of(turn) for turn in turns]
    answers = [place for place, role in enumerate(roles) if role == "model"]
    start = answers[-1] + 1 if answers else 0
    generation = mapping(member(payload, "generationConfig"))
    schema = member(generation, "responseSchema") or member(
        generation, "responseJsonSchema"
    )
    return Ask(
        line=next((text for t in turns[start:] for text in _texts(t)), ""),
        assistant_turns=len(answers),
        is_continuation="result" in roles[start:],
        tools=tuple(_declarations(payload)),
        choice=_choice(payload),
        schema=mapping(schema) or None,
        max_output_tokens=whole(member(generation, "maxOutputTokens")),
        wants_thinking=False,
    )


def _texts(turn: Json) -> Iterator[str]:
    for part in parts_with(turn, "text"):
        yield word(part["text"])


def _declarations(payload: Json) -> Iterator[tuple[str, Json]]:
    for tool in objects(payload.get("tools")):
        for entry in objects(member(tool, "functionDeclarations")):
            schema = entry.get("parameters") or member(entry, "parametersJsonSchema")
            yield word(entry.get("name")), mapping(schema)


def _choice(payload: Json) -> str:
    tool_config = mapping(member(payload, "toolConfig"))
    calling = mapping(member(tool_config, "functionCallingConfig"))
    return word(calling.get("mode")).lower() or "auto"


def _part_blocks(turn: Json) -> Iterator[Block]:
    for part in parts_of(turn):
        shown = {k: v for k, v in part.items() if k not in _UNSEEN}
        media = member(part, "inlineData") or member(part, "fileData")
        if isinstance(part.get("text"), str):
            yield Block(render_text(part["text"]))
        elif media is not None:
            yield Block(render_media(compact(media)))
        else:
            yield Block(render_text(compact(shown)))
