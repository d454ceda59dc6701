"""What the admin API is written on: requests, answers, routes, over the relay's server.

Rules:
- Connections, framing and their limits are the server's; here is only what an API needs
  above them (decision 0017).
- A path is matched by its decoded steps: `%2F` in one of them is no slash.
- Names of request headers are in small letters; of two with one name the first counts.
- GET answers HEAD as well.
- An error says what is wrong and what to do; it repeats nothing of the request.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl, unquote

from deuz_proxy.calls import Incoming
from deuz_proxy.edge.answers import as_sidecar_error
from deuz_proxy.edge.http1_server import Http1Server, make_http1_server
from deuz_proxy.errors import RequestMalformed
from deuz_proxy.observe.inflate import content_codings, decode_body
from deuz_proxy.ports import Client


class Request:
    """One request, as handlers ask for it. `named` are steps that its route names.

    Raises:
        RequestMalformed: what it asks for is no text in UTF-8.
    """

    def __init__(self, incoming: Incoming) -> None:
        target = incoming.target
        if not target.startswith("/"):
            # The whole address, as to a forward proxy.
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        try:
            self.steps = [unquote(step, errors="strict") for step in path.split("/")]
            asked = parse_qsl(query, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError:
            raise RequestMalformed from None
        lines = [
            (name.decode("latin-1").lower(), value.decode(errors="surrogateescape"))
            for name, value in incoming.headers
        ]
        self.method = incoming.method
        self.path = "/".join(self.steps)
        self.query = dict(reversed(asked))
        self.headers = dict(reversed(lines))
        self.named: Mapping[str, str] = {}
        self._incoming = incoming

    async def read(self, *, limit_bytes: int) -> bytes:
        """Return the body, decoded.

        Raises:
            BodyTooLarge: it is longer than the limit; it is not read to its end.
            RequestMalformed: its framing is broken.
            Undecodable: it is compressed, and damaged or longer than the limit.
        """
        body = await self._incoming.read_body(limit_bytes=limit_bytes)
        codings = content_codings(self._incoming.headers)
        if not codings:
            return body
        return await decode_body(body, codings, limit_bytes=limit_bytes)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer that is here whole."""

    body: bytes = b""
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """An answer that is sent as it is made.

    `end` lets it end early, and is called at its end. Whoever reads nothing for
    `write_seconds` is let go.
    """

    content_type: str
    pieces: AsyncIterator[bytes]
    end: Callable[[], None] = lambda: None
    write_seconds: float | None = None


Answer = Response | Stream
Handler = Callable[[Request], Awaitable[Answer]]
Guard = Callable[[Request], Response | None]


def answer_json(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer in JSON."""
    return Response(json.dumps(content).encode(), status, headers=headers or {})


def refuse(
    status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error answer: what is wrong, where, and what to do."""
    content = {"error": {"code": code, "message": message}}
    return answer_json(content, status=status, headers=headers)


UNKNOWN_PATH = refuse(
    404, "unknown_path", "nothing is at this path; docs/operations.md lists all"
)


class Application:
    """Routes behind a guard, at an address. Listened on and closed once.

    `guard` returns a refusal, or None for what it lets through. `headers` are those of
    each answer that has none of the name itself.
    """

    def __init__(self, *, guard: Guard, headers: Mapping[str, str]) -> None:
        self._guard = guard
        self._headers = headers
        self._streams: set[Stream] = set()
        self._server: Http1Server
        self.routes: dict[str, dict[str, Handler]] = {}

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve a path; `{name}` in it stands for any step that is not empty."""
        handlers = self.routes.setdefault(path, {})
        handlers[method] = handler
        if method == "GET":
            handlers["HEAD"] = handler

    async def listen(self, host: str, port: int) -> int:
        """Answer at the address; return the port that was bound.

        Raises:
            OSError: it cannot be listened on; it is to be closed all the same.
        """
        self._server = await make_http1_server(self._serve)
        _, bound = await self._server.listen(host, port)
        return bound

    async def close(self, *, grace_seconds: float) -> None:
        """Stop accepting, end what streams, let answers end within the grace."""
        for stream in list(self._streams):
            stream.end()
        await self._server.close(grace_seconds=grace_seconds)

    async def _serve(self, incoming: Incoming, client: Client) -> None:
        """Serve one request; never raises."""
        try:
            answer = await self._answer(incoming)
            if isinstance(answer, Response):
                if self._start(answer, client):
                    await client.drain()
            else:
                await self._stream(answer, client, is_head=incoming.method == "HEAD")
            client.finish()
        except (ConnectionResetError, TimeoutError):
            # Who has left, or sleeps, is not answered.
            client.abort()
        except Exception as fault:  # noqa: BLE001  # Half of it must not look whole.
            as_sidecar_error(fault)
            client.abort()

    async def _answer(self, incoming: Incoming) -> Answer:
        try:
            request = Request(incoming)
            return self._guard(request) or await self._handle(request)
        except ConnectionResetError:
            raise
        except Exception as fault:  # noqa: BLE001  # One must not end all the others.
            own = as_sidecar_error(fault)
            return refuse(own.status, own.code, str(own))

    async def _handle(self, request: Request) -> Answer:
        for path, handlers in self.routes.items():
            named = _match(path.split("/"), request.steps)
            if named is None:
                continue
            if request.method not in handlers:
                allowed = ", ".join(sorted(handlers))
                message = f"this path does not take the method; use {allowed}"
                headers = {"Allow": allowed}
                return refuse(405, "method_not_allowed", message, headers=headers)
            request.named = named
            return await handlers[request.method](request)
        return UNKNOWN_PATH

    async def _stream(self, stream: Stream, client: Client, *, is_head: bool) -> None:
        self._streams.add(stream)
        try:
            client.start(200, "OK", self._lines({"Content-Type": stream.content_type}))
            if is_head:
                return
            async for piece in stream.pieces:
                if client.write(piece):
                    async with asyncio.timeout(stream.write_seconds):
                        await client.drain()
        finally:
            self._streams.discard(stream)
            stream.end()

    def _start(self, answer: Response, client: Client) -> bool:
        """Send an answer; tell whether it waits for the client to read."""
        headers = {"Content-Type": answer.content_type, **answer.headers}
        if answer.status != HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(len(answer.body))
        reason = HTTPStatus(answer.status).phrase
        lines = self._lines(headers)
        return client.start_with(answer.status, reason, lines, answer.body)

    def _lines(self, headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
        named = {**self._headers, "Date": date, **headers}
        return [(name.encode(), value.encode()) for name, value in named.items()]


def _match(path: Sequence[str], steps: Sequence[str]) -> dict[str, str] | None:
    """Return the steps that a route names, None if the steps are another path."""
    if len(path) != len(steps):
        return None
    named = {}
    for wanted, step in zip(path, steps, strict=True):
        if wanted.startswith("{") and step:
            named[wanted[1:-1]] = step
        elif wanted != step:
            return None
    return named
