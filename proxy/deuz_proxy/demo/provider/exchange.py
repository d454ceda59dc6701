"""What the fake provider is asked, what it says, and what it remembers of both.

Rules:
- A `Reply` is wire-neutral; only the `shape_*` modules know how a wire spells it.
- A `Refusal` names the broken rule by a stable word, for tests to compare.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deuz_proxy.demo.provider.signing import Signer

Json = dict[str, Any]

ANTHROPIC = "anthropic"
CHAT = "openai_chat"
RESPONSES = "openai_responses"
GEMINI = "gemini"
OLLAMA_CHAT = "ollama_chat"
OLLAMA_GENERATE = "ollama_generate"
OLLAMA = frozenset({OLLAMA_CHAT, OLLAMA_GENERATE})
OTHER = "other"


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request as the provider understands it.

    `purpose` is `generate`, `count` or `other`; `history` are items the provider held
    for the client (Responses only). `body` is the decoded body.
    """

    wire: str
    model: str
    is_streamed: bool
    payload: Json
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    raw_path: str = ""
    credential: str = ""
    purpose: str = "generate"
    history: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Visible words of the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Signed reasoning; `is_redacted` sends it as an opaque blob."""

    text: str
    is_redacted: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of one of the client's tools."""

    name: str
    arguments: Json
    call_id: str = ""


Part = Text | Thinking | ToolCall


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says.

    `stop` is `end`, `tool`, `length`, `refusal` or `window`; empty means "by the
    parts". `cut_after` breaks the connection after so many stream events, or in the
    middle of a buffered body.
    """

    parts: tuple[Part, ...]
    stop: str = ""
    first_byte_seconds: float = 0.0
    pause_seconds: float = 0.0
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class RawReply:
    """Bytes to send as they are; each chunk is written on its own.

    `is_cut` breaks the connection after the last chunk.
    """

    status: int
    chunks: tuple[bytes, ...]
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    pause_seconds: float = 0.0
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error to be told in the wire's own shape."""

    rule: str
    message: str
    status: int = 400
    code: str | None = None
    param: str | None = None


Answer = Reply | RawReply | Refusal
Script = Callable[[ProviderRequest], "Answer | Awaitable[Answer | None] | None"]


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Disjoint input counts and the output; `reasoning` is a part of `output`."""

    uncached: int = 0
    cache_read: int = 0
    cache_write_short: int = 0
    cache_write_long: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def cache_write(self) -> int:
        """Tokens written with either lifetime."""
        return self.cache_write_short + self.cache_write_long

    @property
    def input_total(self) -> int:
        """All input tokens, cached ones included."""
        return self.uncached + self.cache_read + self.cache_write


@dataclass(slots=True)
class LoggedRequest:
    """A request as it was received, byte for byte, and what became of it.

    Written only by the handler of that request; `status` is None until an answer
    began, `is_client_gone` says that the client left before its end.
    """

    method: str
    raw_path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    wire: str = OTHER
    model: str = ""
    status: int | None = None
    rule: str | None = None
    usage: TokenCount | None = None
    is_complete: bool = False
    is_client_gone: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """What the answering model needs to know of a request, whatever its wire.

    `line` is the first line of the first user text after the last assistant turn:
    context that a sidecar adds behind it does not change the answer.
    """

    line: str
    assistant_turns: int
    is_continuation: bool
    tools: tuple[tuple[str, Json], ...]
    choice: str = "auto"
    schema: Json | None = None
    max_output_tokens: int | None = None
    wants_thinking: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """A reply with everything a wire needs to spell it out."""

    request: ProviderRequest
    reply: Reply
    counts: TokenCount
    created: int
    serial: str
    signer: Signer
    step_tokens: int = 1
