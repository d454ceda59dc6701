"""The wires side by side: each with all that is peculiar about it.

Rules:
- The table is written out; nothing registers itself.
- A wire is here with everything, or not at all: one that is not is forwarded, neither
  understood nor metered.
"""

from typing import Protocol

import msgspec

from deuz_compiler.wires.anthropic import parts as anthropic_parts
from deuz_compiler.wires.anthropic import reply as anthropic_reply
from deuz_compiler.wires.anthropic import request as anthropic_request
from deuz_compiler.wires.gemini import parts as gemini_parts
from deuz_compiler.wires.gemini import reply as gemini_reply
from deuz_compiler.wires.gemini import request as gemini_request
from deuz_compiler.wires.metering import WireReplies
from deuz_compiler.wires.ollama import parts as ollama_parts
from deuz_compiler.wires.ollama import prompt as ollama_prompt
from deuz_compiler.wires.ollama import reply as ollama_reply
from deuz_compiler.wires.ollama import request as ollama_request
from deuz_compiler.wires.openai_chat import parts as openai_chat_parts
from deuz_compiler.wires.openai_chat import reply as openai_chat_reply
from deuz_compiler.wires.openai_chat import request as openai_chat_request
from deuz_compiler.wires.openai_responses import parts as openai_responses_parts
from deuz_compiler.wires.openai_responses import reply as openai_responses_reply
from deuz_compiler.wires.openai_responses import request as openai_responses_request
from deuz_compiler.wires.parts import Part, Place
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing


class PartsReader(Protocol):
    """What a wire's parts module gives."""

    def read_parts(self, raw: bytes) -> tuple[Part, ...]:
        """Return the parts of one turn; not a turn of this wire is `NotLifted`."""

    def part_span(self, raw: bytes, index: int) -> Place:
        """Return the place of one part; one that is not there is `NotLifted`."""

    def user_text(self, raw: bytes) -> str:
        """Return what the user wrote, without what the sidecar added."""


class Wire(msgspec.Struct, frozen=True, gc=False):
    """One provider API: how bodies are cut, turns read, text written, answers read."""

    rules: Rules
    parts: PartsReader
    writing: Writing
    replies: WireReplies


WIRES: dict[str, Wire] = {
    "anthropic": Wire(
        anthropic_request.RULES,
        anthropic_parts,
        anthropic_request.WRITING,
        anthropic_reply.REPLIES,
    ),
    "openai_chat": Wire(
        openai_chat_request.RULES,
        openai_chat_parts,
        openai_chat_request.WRITING,
        openai_chat_reply.REPLIES,
    ),
    "openai_responses": Wire(
        openai_responses_request.RULES,
        openai_responses_parts,
        openai_responses_request.WRITING,
        openai_responses_reply.REPLIES,
    ),
    "gemini": Wire(
        gemini_request.RULES,
        gemini_parts,
        gemini_request.WRITING,
        gemini_reply.REPLIES,
    ),
    "ollama_chat": Wire(
        ollama_request.CHAT_RULES,
        ollama_parts,
        ollama_request.CHAT_WRITING,
        ollama_reply.REPLIES,
    ),
    "ollama_generate": Wire(
        ollama_request.GENERATE_RULES,
        ollama_prompt,
        ollama_request.GENERATE_WRITING,
        ollama_reply.REPLIES,
    ),
}
