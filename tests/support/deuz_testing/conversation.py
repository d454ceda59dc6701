"""The line as a conversation, without sockets.

Rules:
- It reads as what happened: `>>` goes into the line, `<<` comes out of it.
- Steps are taken when the conversation is awaited; one that does not come fails.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any

from deuz_compiler import BlockRecord, render_block
from deuz_proxy.calls import Call, Incoming
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime
from deuz_proxy.serve import serve_call
from deuz_proxy.stages.admit import (
    admit_call,
    lift_call,
    read_body,
    take_body,
    unpack_call,
)
from deuz_testing.bodies import anthropic_body, assistant, tool_result, tool_use, user
from deuz_testing.histories import broken_rules
from deuz_testing.scripted import (
    Asked,
    GivenClient,
    GivenRequest,
    Said,
    ScriptedUpstreams,
)
from deuz_testing.waiting import WAIT_SECONDS

LONG = "The river runs past the mill and on to the sea. " * 60
ASK = [user("how far is it?")]
BLOCK = render_block(
    (BlockRecord("rules", "memory", "r1", "", "", "Answer in metres."),)
)
"""The block of `line.RULE`, as the model sees it."""

Step = Callable[["Conversation"], Awaitable[None]]


class Conversation:
    """Steps that are taken when the conversation is awaited."""

    def __init__(self, runtime: Runtime) -> None:
        assert isinstance(runtime.upstreams, ScriptedUpstreams)
        self.runtime = runtime
        self.upstream = runtime.upstreams
        self.client = GivenClient()
        self.serving: asyncio.Task[None] | None = None
        self._steps: deque[Step] = deque()

    def __rshift__(self, step: Step) -> "Conversation":
        self._steps.append(step)
        return self

    def __lshift__(self, step: Step) -> "Conversation":
        self._steps.append(step)
        return self

    def __await__(self) -> Generator[Any, None, None]:
        return self._take().__await__()

    async def _take(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while self._steps:
                await self._steps.popleft()(self)

    def serve(self, incoming: Incoming) -> None:
        self.client = GivenClient()
        watch = Watch(self.runtime.monotonic)
        line = serve_call(incoming, self.client, self.runtime, watch)
        self.serving = asyncio.get_running_loop().create_task(line)

    async def until_served(self) -> None:
        assert self.serving is not None
        await self.serving


def conversation(runtime: Runtime) -> Conversation:
    """Begin a conversation over this runtime."""
    return Conversation(runtime)


def request(body: bytes, *lines: tuple[bytes, bytes], **changes: Any) -> Step:
    """The client sends a request."""
    headers = (*lines, (b"x-api-key", b"key-1"))

    async def step(talk: Conversation) -> None:
        talk.serve(GivenRequest(body, **({"headers": headers} | changes)))

    return step


def upstream_gets(check: bytes | Callable[[Asked], object]) -> Step:
    """The upstream gets these bytes, or a request for which the check is true."""

    async def step(talk: Conversation) -> None:
        asking = asyncio.ensure_future(talk.upstream.asked.get())
        assert talk.serving is not None
        await asyncio.wait((asking, talk.serving), return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            await talk.until_served()
            raise AssertionError(f"nothing was sent; the client got {talk.client}")
        asked = asking.result()
        if isinstance(check, bytes):
            assert asked.body == check
        else:
            assert check(asked), asked

    return step


def upstream_says(answer: Said | SidecarError) -> Step:
    """The upstream answers, or fails."""

    async def step(talk: Conversation) -> None:
        await talk.upstream.answers.put(answer)

    return step


def client_gets(check: bytes | Callable[[GivenClient], object]) -> Step:
    """The client gets this whole body, or an answer for which the check is true."""

    async def step(talk: Conversation) -> None:
        await talk.until_served()
        if isinstance(check, bytes):
            assert talk.client.body == check
            assert talk.client.is_finished
        else:
            assert check(talk.client), talk.client
        assert talk.upstream.asked.empty(), "more was sent than was looked at"

    return step


def client_is_refused(code: str) -> Step:
    """The line refuses the request with this code."""

    async def step(talk: Conversation) -> None:
        assert talk.serving is not None
        await asyncio.wait((talk.serving,))
        fault = talk.serving.exception()
        assert isinstance(fault, SidecarError), fault
        assert fault.code == code

    return step


def anthropic_answer(text: str = "Fine.", **usage: int) -> Said:
    """Return a whole answer of the Messages API."""
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5, **usage},
    }
    return Said(chunks=(json.dumps(body).encode(),))


def anthropic_overflow(tokens: int = 250_000, limit: int = 200_000) -> Said:
    """Return the API's own words for a request that is too long."""
    message = f"prompt is too long: {tokens} tokens > {limit} maximum"
    error = {"type": "invalid_request_error", "message": message}
    body = json.dumps({"type": "error", "error": error}).encode()
    lines = ((b"Content-Type", b"application/json"), (b"Request-Id", b"req_9"))
    return Said(400, (body,), lines)


async def admitted(runtime: Runtime, incoming: GivenRequest) -> Call:
    """Return the request as the first stage leaves it."""
    call = admit_call(incoming, runtime)
    if call.passthrough is None:
        watch = Watch(runtime.monotonic)
        call = take_body(call, runtime) or await read_body(call, runtime, watch)
    return lift_call(await unpack_call(call, runtime), runtime)


def with_block(messages: Sequence[Any], at: int, text: str = BLOCK) -> bytes:
    """Return the body with our block as an own user turn behind a message."""
    return anthropic_body([*messages[: at + 1], user(text), *messages[at + 1 :]])


def parts_of(runtime: Runtime) -> dict[str, Any]:
    """Return what a reload keeps: state, and the way to the upstream."""
    names = ("ledger", "tracker", "checkpoints", "upstreams")
    return {name: getattr(runtime, name) for name in names}


def told_turns(count: int = 8) -> list[Any]:
    """Return plain exchanges that only a summary can shorten."""
    turns: list[Any] = [user("Tell me of rivers.")]
    for number in range(count):
        turns += [assistant(f"{number}: {LONG}"), user(f"Go on, part {number}.")]
    return turns


def tool_turns(count: int = 8) -> list[Any]:
    """Return rounds of tools whose results may be pruned."""
    turns: list[Any] = [user("Read the files.")]
    for number in range(count):
        turns += [tool_use(f"t{number}"), tool_result(f"t{number}", LONG)]
    return turns


def is_summary(asked: Asked) -> bool:
    payload = asked.payload
    return "tools" not in payload and len(payload["messages"]) == 1


def is_shorter(turns: Sequence[Any], **members: Any) -> Any:
    """Return a check: less was sent, by the rules, the ends as they were."""
    whole = anthropic_body(turns, **members)

    def check(asked: Asked) -> bool:
        sent = asked.payload["messages"]
        is_legal = not broken_rules(sent)
        return is_legal and len(asked.body) < len(whole) and sent[-1] == turns[-1]

    return check
