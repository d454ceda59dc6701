"""A short stream of every wire, cut where its final event begins.

Rules:
- Behind `end` a client has all that the provider says; the connection may not know yet.
- The bytes are the provider's shape, and no builder's: what is tested here is bytes.
"""

from dataclasses import dataclass
from typing import Any

from deuz_testing.aws_frames import chunk, event

EVENTS = b"text/event-stream"
_BEDROCK = b"application/vnd.amazon.eventstream"
_COUNTS = {"inputTokens": 3, "outputTokens": 1}
_NATIVE_COUNTS = {"inputTokenCount": 3, "outputTokenCount": 1}


@dataclass(frozen=True)
class Stream:
    """What a provider says on a path: `begin` and then, as the final event, `end`.

    `upstream` is the members of the upstream in a config that leads there.
    """

    wire: str
    path: str
    kind: bytes
    begin: bytes
    end: bytes
    upstream: str

    @property
    def is_event_stream(self) -> bool:
        return self.kind == EVENTS

    def config(self, url: str, mode: str) -> str:
        """Return a config that leads the path to an upstream at this address."""
        return f"""
upstreams:
  one: {{url: "{url}", wire: {self.upstream}}}
routes:
  - {{path: "{self.path.partition("?")[0]}", upstream: one, mode: {mode}}}
"""


def _gemini(text: str, *, more: str = "") -> bytes:
    return (
        f'{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}{more}}}],'
        '"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}}'
    ).encode()


def _data(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


def _events(path: str, wire: str, upstream: str, *payloads: bytes) -> Stream:
    *first, last = payloads
    return Stream(wire, path, EVENTS, _data(*first), _data(last), upstream)


def _bedrock(wire: str, call: str, *frames: Any) -> Stream:
    *first, last = frames
    path = f"/model/anthropic.claude/{call}"
    return Stream(wire, path, _BEDROCK, b"".join(first), last, "bedrock")


_GOOGLE = "/v1beta/models/g:streamGenerateContent"
_LINES = b"application/x-ndjson"

STREAMS: dict[str, Stream] = {
    "anthropic": _events(
        "/v1/messages",
        "anthropic",
        "anthropic",
        b'{"type":"message_start","message":{"id":"m","model":"c",'
        b'"usage":{"input_tokens":3,"output_tokens":1}}}',
        b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},'
        b'"usage":{"output_tokens":1}}',
        b'{"type":"message_stop"}',
    ),
    "openai_chat": _events(
        "/v1/chat/completions",
        "openai_chat",
        "openai",
        b'{"id":"c","choices":[{"delta":{"content":"a"},"finish_reason":null}]}',
        b'{"id":"c","choices":[{"delta":{},"finish_reason":"stop"}]}',
        b'{"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}',
        b"[DONE]",
    ),
    "openai_responses": _events(
        "/v1/responses",
        "openai_responses",
        "openai",
        b'{"type":"response.created","response":{"id":"r","model":"g"}}',
        b'{"type":"response.output_text.delta","delta":"a"}',
        b'{"type":"response.completed","response":{"id":"r","status":"completed",'
        b'"output":[],"usage":{"input_tokens":3,"output_tokens":1}}}',
    ),
    "gemini": _events(
        f"{_GOOGLE}?alt=sse",
        "gemini",
        "gemini",
        _gemini("a"),
        _gemini("b", more=',"finishReason":"STOP"'),
    ),
    "gemini_array": Stream(
        "gemini",
        _GOOGLE,
        b"application/json",
        b"[" + _gemini("a"),
        b",\r\n" + _gemini("b", more=',"finishReason":"STOP"'),
        "gemini",
    ),
    "ollama_chat": Stream(
        "ollama",
        "/api/chat",
        _LINES,
        b'{"model":"q","message":{"role":"assistant","content":"a"},"done":false}\n',
        b'{"model":"q","message":{"role":"assistant","content":""},"done":true,'
        b'"done_reason":"stop","prompt_eval_count":3,"eval_count":1}\n',
        "ollama",
    ),
    "ollama_generate": Stream(
        "ollama",
        "/api/generate",
        _LINES,
        b'{"model":"q","response":"a","done":false}\n',
        b'{"model":"q","response":"","done":true,"done_reason":"stop",'
        b'"prompt_eval_count":3,"eval_count":1}\n',
        "ollama",
    ),
    "bedrock_converse": _bedrock(
        "bedrock_converse",
        "converse-stream",
        event("messageStart", {"role": "assistant"}),
        event("contentBlockDelta", {"delta": {"text": "a"}}),
        event("messageStop", {"stopReason": "end_turn"}),
        event("metadata", {"usage": _COUNTS}),
    ),
    "bedrock_invoke": _bedrock(
        "bedrock_invoke",
        "invoke-with-response-stream",
        chunk({"type": "content_block_delta", "delta": {"text": "a"}}),
        chunk({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        chunk(
            {
                "type": "message_stop",
                "amazon-bedrock-invocationMetrics": _NATIVE_COUNTS,
            }
        ),
    ),
}
