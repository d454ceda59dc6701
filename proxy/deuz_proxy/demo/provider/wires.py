"""The wires side by side: how each reads, refuses, renders and spells.

Rules:
- The table is written out; nothing registers itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deuz_proxy.demo.provider import (
    shape_anthropic,
    shape_chat,
    shape_gemini,
    shape_ollama,
    shape_responses,
)
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    OLLAMA,
    OLLAMA_CHAT,
    OLLAMA_GENERATE,
    RESPONSES,
    Ask,
    Finished,
    Json,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.prompt_anthropic import ask_anthropic, render_anthropic
from deuz_proxy.demo.provider.prompt_chat import ask_chat, render_chat, scope_of
from deuz_proxy.demo.provider.prompt_gemini import ask_gemini, render_gemini
from deuz_proxy.demo.provider.prompt_ollama import ask_ollama, render_ollama
from deuz_proxy.demo.provider.prompt_responses import (
    SCOPE_MEMBERS,
    ask_responses,
    render_responses,
)
from deuz_proxy.demo.provider.rules_anthropic import check_anthropic
from deuz_proxy.demo.provider.rules_chat import check_chat
from deuz_proxy.demo.provider.rules_gemini import check_gemini
from deuz_proxy.demo.provider.rules_ollama import check_ollama
from deuz_proxy.demo.provider.rules_responses import check_responses
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.tokens import Block


@dataclass(frozen=True, slots=True)
class Wire:
    """Everything that one provider API does in its own way."""

    render: Callable[[ProviderRequest], tuple[Block, ...]]
    ask: Callable[[ProviderRequest], Ask]
    scope: Callable[[Json], str]
    spell: Callable[[Finished], Json]
    stream: Callable[[Finished], Iterator[bytes]]
    spell_error: Callable[[Refusal, str], Json]
    count_member: str


_OLLAMA = Wire(
    render=render_ollama,
    ask=ask_ollama,
    scope=lambda payload: scope_of(payload, ("think", "template")),
    spell=shape_ollama.spell_answer,
    stream=shape_ollama.spell_lines,
    spell_error=shape_ollama.spell_error,
    count_member="",
)

WIRES = {
    ANTHROPIC: Wire(
        render=render_anthropic,
        ask=ask_anthropic,
        scope=lambda payload: "",
        spell=shape_anthropic.spell_message,
        stream=shape_anthropic.spell_events,
        spell_error=shape_anthropic.spell_error,
        count_member="input_tokens",
    ),
    CHAT: Wire(
        render=render_chat,
        ask=ask_chat,
        scope=scope_of,
        spell=shape_chat.spell_completion,
        stream=shape_chat.spell_chunks,
        spell_error=shape_chat.spell_error,
        count_member="input_tokens",
    ),
    RESPONSES: Wire(
        render=render_responses,
        ask=ask_responses,
        scope=lambda payload: scope_of(payload, SCOPE_MEMBERS),
        spell=shape_responses.spell_response,
        stream=shape_responses.spell_events,
        spell_error=shape_chat.spell_error,
        count_member="input_tokens",
    ),
    GEMINI: Wire(
        render=render_gemini,
        ask=ask_gemini,
        scope=lambda payload: "",
        spell=shape_gemini.spell_content,
        stream=shape_gemini.spell_chunks,
        spell_error=shape_gemini.spell_error,
        count_member="totalTokens",
    ),
    OLLAMA_CHAT: _OLLAMA,
    OLLAMA_GENERATE: _OLLAMA,
}


def check_rules(
    request: ProviderRequest, signer: Signer, *, alternate: bool
) -> Refusal | None:
    """Return the refusal of the first rule that the request breaks, or None."""
    if request.wire == ANTHROPIC:
        return check_anthropic(request, signer, alternate=alternate)
    if request.wire == CHAT:
        return check_chat(request, alternate=alternate)
    if request.wire == RESPONSES:
        return check_responses(request, signer)
    if request.wire in OLLAMA:
        return check_ollama(request, alternate=alternate)
    return check_gemini(request, signer, alternate=alternate)


def spell_error(wire: str, refusal: Refusal, serial: str) -> Json:
    """Return an error in the wire's shape; unknown paths speak like OpenAI."""
    return WIRES.get(wire, WIRES[CHAT]).spell_error(refusal, serial)
