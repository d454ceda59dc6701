"""One client's branch of a conversation, and how each API would write it.

Rules:
- Messages are in the API's own shape already, as the client keeps them; its style says
  whether it writes them short, as lists, or with its cache marker on the newest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from deuz_testing.bodies import compact

Message = dict[str, Any]
RESPONSES = "openai_responses"
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    RESPONSES: "/v1/responses",
}


@dataclass
class Branch:
    """One client's history, and what the provider counted for its last request."""

    key: bytes
    system: str
    messages: list[Message]
    with_tools: bool = False
    with_notes: bool = False
    style: str = "string"
    sent: list[Message] = field(default_factory=list)
    cached_tokens: int = 0
    sent_head: object = None

    def copied(self) -> "Branch":
        return Branch(**{**vars(self), "messages": list(self.messages)})

    @property
    def head(self) -> object:
        return (self.system, self.with_tools)

    @property
    def goes_on(self) -> bool:
        """Tell whether all that was sent last stands unchanged ahead of this."""
        is_same = self.messages[: len(self.sent)] == self.sent
        return bool(self.sent) and is_same and self.head == self.sent_head


class Wire:
    """How the test's neutral messages are written for one API."""

    def __init__(self, name: str) -> None:
        self.name = name

    def body(self, branch: Branch) -> bytes:
        messages = [self._styled(m, branch, i) for i, m in enumerate(branch.messages)]
        body: Message = {"model": "fake", "max_tokens": 100}
        if self.name == RESPONSES:
            body = {"model": "fake", "max_output_tokens": 100, "store": False}
        if branch.with_tools:
            body["tools"] = [self._tool()]
        if self.name == "anthropic":
            body |= {"system": branch.system, "messages": messages}
            if branch.style != "marked":
                body["cache_control"] = {"type": "ephemeral"}
        elif self.name == RESPONSES:
            is_text = branch.style == "string" and len(messages) == 1
            history = messages[0]["content"] if is_text else messages
            body |= {"instructions": branch.system, "input": history}
        else:
            body["messages"] = [{"role": "system", "content": branch.system}, *messages]
        return compact(body)

    def tools(self, ids: Sequence[str], result: str) -> list[Message]:
        if self.name == "anthropic":
            calls = [
                {"type": "tool_use", "id": i, "name": "look", "input": {"a": i}}
                for i in ids
            ]
            results = [
                {"type": "tool_result", "tool_use_id": i, "content": result}
                for i in ids
            ]
            return [
                {"role": "assistant", "content": calls},
                {"role": "user", "content": results},
            ]
        if self.name == RESPONSES:
            return self._items(ids, result)
        function = {"name": "look", "arguments": "{}"}
        called = [{"id": i, "type": "function", "function": function} for i in ids]
        return [
            {"role": "assistant", "content": None, "tool_calls": called},
            *({"role": "tool", "tool_call_id": i, "content": result} for i in ids),
        ]

    def _items(self, ids: Sequence[str], result: str) -> list[Message]:
        call = {"type": "function_call", "name": "look", "arguments": "{}"}
        thought = {"type": "reasoning", "summary": [], "id": f"rs_{ids[0]}"}
        output = {"type": "function_call_output", "output": result}
        return [
            thought,
            *({**call, "call_id": i, "id": f"fc_{i}"} for i in ids),
            *({**output, "call_id": i} for i in ids),
        ]

    def _tool(self) -> Message:
        schema = {"type": "object", "properties": {}}
        if self.name == RESPONSES:
            return {"type": "function", "name": "look", "parameters": schema}
        if self.name == "anthropic":
            return {"name": "look", "input_schema": schema}
        return {"type": "function", "function": {"name": "look", "parameters": schema}}

    def _styled(self, message: Message, branch: Branch, index: int) -> Message:
        content = message.get("content")
        if branch.style == "string" or not isinstance(content, str):
            return message
        if message["role"] == "system":
            return message
        kind = self._kind(message["role"])
        part: Message = {"type": kind, "text": content}
        if branch.style == "marked" and index == len(branch.messages) - 1:
            part |= self._marker()
        return {**message, "content": [part]}

    def _kind(self, role: str) -> str:
        if self.name != RESPONSES:
            return "text"
        return "output_text" if role == "assistant" else "input_text"

    def _marker(self) -> Message:
        if self.name == "anthropic":
            return {"cache_control": {"type": "ephemeral"}}
        return {"prompt_cache_breakpoint": {"mode": "explicit"}}
