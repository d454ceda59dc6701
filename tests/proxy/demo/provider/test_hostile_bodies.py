"""Whatever a body holds, a provider answers; it never breaks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.demo.provider.answers import compose_answer
from deuz_proxy.demo.provider.engine import Accepted, Engine, Settings
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    ProviderRequest,
    Reply,
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.wires import WIRES

WORDS = st.sampled_from(
    [
        "", "\u200b", "\ud800", "user", "assistant", "system", "tool", "model", "text",
        "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "a", "b",
        "input_text", "output_text", "function_call", "function_call_output",
        "reasoning", "message", "fake-tools", "fake-thinking", "claude-3-5-haiku",
        "ephemeral", "1h", "5m", "enabled", "auto", "any", "function",
    ]
)  # fmt: skip
NAMES = st.sampled_from(
    [
        "role", "content", "type", "text", "id", "tool_use_id", "input", "name",
        "cache_control", "ttl", "thinking", "signature", "data", "source",
        "tool_calls", "tool_call_id", "function", "arguments", "call_id", "output",
        "summary", "parts", "functionCall", "functionResponse", "thoughtSignature",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)
TURNS = st.lists(
    st.fixed_dictionaries(
        {"role": WORDS, "content": WORDS | st.lists(VALUES, max_size=3) | VALUES},
        optional={"parts": st.lists(VALUES, max_size=3), "type": WORDS, "id": WORDS},
    )
    | VALUES,
    max_size=4,
)
MEMBERS = st.sampled_from(
    [
        "system", "tools", "tool_choice", "thinking", "metadata", "cache_control",
        "instructions", "response_format", "text", "reasoning", "toolConfig",
        "generationConfig", "systemInstruction", "output_config", "include",
        "stream_options", "stop_sequences", "max_tokens", "temperature",
    ]
)  # fmt: skip


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Any]:
    turns = draw(TURNS | VALUES)
    named = {"messages": turns, "input": turns, "contents": turns}
    return {
        "model": draw(WORDS),
        "max_tokens": 9,
        **named,
        **draw(st.dictionaries(MEMBERS, VALUES, max_size=4)),
    }


@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT, RESPONSES, GEMINI])
@given(payload=payloads())
def test_any_json_is_refused_or_answered(wire: str, payload: dict[str, Any]) -> None:
    model = payload["model"]
    body = compact(payload).encode("utf-8", "surrogatepass")
    request = ProviderRequest(wire, model, False, payload, body)
    engine = Engine(Settings(minimum_cached_tokens=1, cache_step_tokens=1), Signer())

    judged = engine.judge(request, 0.0)

    if isinstance(judged, Accepted):
        reply = compose_answer(request, judged.ask)
        assert isinstance(reply, Reply)
        finished = engine.finish(judged, reply, created=0, serial="1")
        assert finished.counts.input_total == judged.tokens
        assert WIRES[wire].spell(finished)
        assert b"".join(WIRES[wire].stream(finished))
    else:
        assert judged.message
