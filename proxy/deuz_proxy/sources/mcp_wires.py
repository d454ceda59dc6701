"""The two ways to a server of the Model Context Protocol, both with a bound.

Rules:
- A message over the limit ends the session: nothing else in it can be trusted.
- What a program writes to its standard error is dropped: it may quote the question.
- A program is asked to end by closing its input; then it is told to, with its children.
- Over HTTP neither the environment's proxies nor compression are used; the protocol's
  own client follows a redirect within one origin only.
"""

import asyncio
import contextlib
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

if TYPE_CHECKING:
    # Only its name is private: it is what a public `Transport` yields.
    from mcp.client._transport import TransportStreams as Wire

Incoming = SessionMessage | Exception

_EXIT_SECONDS = 2.0
_CONNECT_SECONDS = 10.0
# The line's deadline is far shorter; this ends what nobody waits for any more.
_ANSWER_SECONDS = 60.0


@asynccontextmanager
async def stdio_wire(
    command: tuple[str, ...],
    environ: Mapping[str, str],
    *,
    most_bytes: int,
    ended: Callable[[], None],
) -> AsyncIterator["Wire"]:
    """Run the program and speak to it; `ended` is called when it says no more.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**get_default_environment(), **environ},
        limit=most_bytes,
        start_new_session=True,
    )
    heard, incoming = anyio.create_memory_object_stream[Incoming](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_listen, process, heard, ended)
            group.start_soon(_speak, process, said)
            yield incoming, outgoing
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
        for stream in (heard, incoming, outgoing, said):
            stream.close()


async def _listen(
    process: asyncio.subprocess.Process,
    heard: MemoryObjectSendStream[Incoming],
    ended: Callable[[], None],
) -> None:
    stdout = process.stdout
    try:
        # An over-long line is a `ValueError` of the reader: the session is over.
        with contextlib.suppress(ValueError, OSError, anyio.BrokenResourceError):
            while stdout is not None and (line := await stdout.readline()):
                await heard.send(_message(line))
    finally:
        heard.close()
        ended()


def _message(line: bytes) -> Incoming:
    try:
        return SessionMessage(
            jsonrpc_message_adapter.validate_json(line, by_name=False)
        )
    except ValueError as fault:
        return fault


async def _speak(
    process: asyncio.subprocess.Process,
    said: MemoryObjectReceiveStream[SessionMessage],
) -> None:
    stdin = process.stdin
    # A program that closed its input is noticed where it is listened to.
    with contextlib.suppress(OSError):
        async for each in said:
            if stdin is not None:
                text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    for number in (signal.SIGTERM, signal.SIGKILL, None):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_SECONDS):
                await _drain(process)
                await process.wait()
                break
        if number is not None:
            # The program leads a group of its own: its children go with it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)


async def _drain(process: asyncio.subprocess.Process) -> None:
    """Read what the program still has to say: a full pipe would keep it from ending."""
    while process.stdout is not None and await process.stdout.read(65_536):
        pass


@asynccontextmanager
async def http_wire(
    url: str,
    headers: Mapping[str, str],
    *,
    ca_file: Path | None,
    most_bytes: int,
) -> AsyncIterator["Wire"]:
    """Speak to the server at the address.

    Raises:
        OSError: the certificates cannot be read.
    """
    tls = ssl.create_default_context(cafile=ca_file)
    async with (
        httpx2.AsyncClient(
            transport=_Bounded(tls, most_bytes),
            headers={**headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            trust_env=False,
        ) as client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=most_bytes
        ) as wire,
    ):
        yield wire


class _Bounded(httpx2.AsyncBaseTransport):
    """Sends requests; an answer to a message is read up to a limit."""

    def __init__(self, tls: ssl.SSLContext, most_bytes: int) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)
        self._most_bytes = most_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, whose body fails where it is too long.

        Raises:
            httpx2.TransportError: the server did not answer, or compressed its answer.
        """
        reply = await self._inner.handle_async_request(request)
        if reply.headers.get("Content-Encoding", "identity").lower() != "identity":
            await reply.aclose()
            raise httpx2.ReadError("a compressed answer")
        # The stream of notifications lives on; its events are bounded by the protocol.
        if request.method == "POST" and isinstance(
            reply.stream, httpx2.AsyncByteStream
        ):
            reply.stream = _BoundedStream(reply.stream, self._most_bytes)
        return reply

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    """A body that fails where it is too long."""

    def __init__(self, inner: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._inner = inner
        self._left_bytes = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._left_bytes -= len(chunk)
            if self._left_bytes < 0:
                raise httpx2.ReadError("an answer over the limit")
            yield chunk

    async def aclose(self) -> None:
        """Close the body."""
        await self._inner.aclose()
