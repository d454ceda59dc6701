"""What the admin API is written on: requests, answers, routes, over the relay's server.

Rules:
- Reading and framing are the relay's; here is only what an API needs above them. A
  second web server took a sixth of an idle process and a quarter of its start.
- A path is matched by its decoded steps: `%2F` in one of them is no slash.
- Names of request headers are in small letters; of two with one name the first counts.
- GET answers HEAD as well.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar, cast
from urllib.parse import parse_qsl, unquote

from deuz_proxy.calls import Incoming
from deuz_proxy.edge.answers import answer_error, as_sidecar_error
from deuz_proxy.edge.http1_server import Http1Server, make_http1_server
from deuz_proxy.ports import Client

_T = TypeVar("_T")
_HEAD, _GET = "HEAD", "GET"


class Key(Generic[_T]):
    """A name, of one type, for what handlers find at their application."""


class NotFound(Exception):
    """Nothing is at the path."""


class MethodNotAllowed(Exception):
    """What is at the path does not take the method; `allowed` are those it takes."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(*allowed)
        self.allowed = allowed


class Request:
    """One request, as handlers ask for it. `named` are steps that its route names."""

    def __init__(self, app: "Application", incoming: Incoming, client: Client) -> None:
        target = incoming.target
        if not target.startswith("/"):
            # The whole address, as to a forward proxy.
            target = "/" + target.partition("://")[2].partition("/")[2]
        path, _, query = target.partition("?")
        self.app = app
        self.client = client
        self.method = incoming.method
        self.steps = tuple([unquote(step) for step in path.split("/")])
        self.path = "/".join(self.steps)
        self.query = _first_of_each(parse_qsl(query, keep_blank_values=True))
        self.headers = _first_of_each(
            [
                (name.decode("latin-1").lower(), value.decode(errors="surrogateescape"))
                for name, value in incoming.headers
            ]
        )
        self.named: Mapping[str, str] = {}
        self._incoming = incoming

    def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive.

        Raises:
            RequestMalformed: its framing is broken.
        """
        return self._incoming.stream_body()


@dataclass(slots=True)
class Response:
    """An answer that is here whole."""

    body: bytes = b""
    status: int = 200
    content_type: str | None = None
    headers: Mapping[str, str] | None = None


class Stream:
    """An answer that is written as it comes. It begins when it is made."""

    def __init__(self, request: Request, content_type: str) -> None:
        self._client = request.client
        lines = request.app.lines({"Content-Type": content_type})
        self._client.start(200, "OK", lines)

    async def write(self, chunk: bytes) -> None:
        """Send bytes, and wait while the client does not read.

        Raises:
            ConnectionResetError: the client has left.
        """
        self._client.write(chunk)
        if self._client.is_slow:
            await self._client.drain()

    def abort(self) -> None:
        """End the connection: the answer is not whole."""
        self._client.abort()


Answer = Response | Stream
Handler = Callable[[Request], Awaitable[Answer]]


class Middleware(Protocol):
    """What stands around all handlers."""

    async def __call__(self, request: Request, handler: Handler) -> Answer:
        """Answer the request, or let the handler do it."""


class Application:
    """Routes, what stands around them, and what their handlers share.

    `dress` adds to the header lines of every answer; `clock` is asked for its date.
    """

    def __init__(
        self,
        *,
        middlewares: Sequence[Middleware] = (),
        dress: Callable[[dict[str, str]], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        handler: Handler = _handle
        for middleware in reversed(middlewares):
            handler = partial(middleware, handler=handler)
        self._handler = handler
        self._dress = dress
        self._clock = clock
        self._shared: dict[Key[Any], object] = {}
        self.routes: dict[str, dict[str, Handler]] = {}
        self.on_close: list[Callable[[], None]] = []

    def __getitem__(self, key: Key[_T]) -> _T:
        """Return what handlers share under this key."""
        return cast(_T, self._shared[key])

    def __setitem__(self, key: Key[_T], value: _T) -> None:
        """Share this under the key."""
        self._shared[key] = value

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Serve a path; `{name}` in it stands for any step that is not empty."""
        handlers = self.routes.setdefault(path, {})
        handlers[method] = handler
        if method == _GET:
            handlers[_HEAD] = handler

    def find(self, request: Request) -> Handler:
        """Return what serves a request, which gets the steps that the route names.

        Raises:
            NotFound: nothing is at the path.
            MethodNotAllowed: what is there does not take the method.
        """
        for path, handlers in self.routes.items():
            named = _match(path.split("/"), request.steps)
            if named is None:
                continue
            request.named = named
            handler = handlers.get(request.method)
            if handler is None:
                raise MethodNotAllowed(sorted(handlers))
            return handler
        raise NotFound

    def lines(self, headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
        """Return an answer's header lines as they are sent."""
        now = time.gmtime(self._clock())
        dressed = {**headers, "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", now)}
        if self._dress is not None:
            self._dress(dressed)
        return tuple(
            [(name.encode(), value.encode()) for name, value in dressed.items()]
        )

    async def __call__(self, incoming: Incoming, client: Client) -> None:
        """Serve one request; never raises but for the client's own leaving."""
        try:
            answer = await self._handler(Request(self, incoming, client))
            if isinstance(answer, Response):
                if client.has_started:
                    # A stream that went wrong: half of it must not look whole.
                    client.abort()
                    return
                self._send(answer, client)
            if client.is_slow:
                await client.drain()
            client.finish()
        except ConnectionResetError:
            # Who has left is not answered.
            client.abort()
        except Exception as fault:  # noqa: BLE001  # One must not end all the others.
            own = as_sidecar_error(fault)
            with suppress(ConnectionResetError):
                answer_error(client, "", own)

    def _send(self, answer: Response, client: Client) -> None:
        headers = dict(answer.headers or {})
        if answer.content_type is not None:
            headers["Content-Type"] = answer.content_type
        if answer.status != HTTPStatus.NOT_MODIFIED:
            headers["Content-Length"] = str(len(answer.body))
        reason = HTTPStatus(answer.status).phrase
        client.start_with(answer.status, reason, self.lines(headers), answer.body)


async def serve_application(
    app: Application, host: str, port: int
) -> tuple[Http1Server, int]:
    """Answer at the address; return the server, and the port that was bound.

    Raises:
        OSError: it cannot be listened on.
    """
    server = await make_http1_server(app)
    try:
        _, bound = await server.listen(host, port)
    except OSError:
        await server.close(grace_seconds=0)
        raise
    return server, bound


async def close_application(
    app: Application, server: Http1Server, *, grace_seconds: float
) -> None:
    """Stop accepting, end what streams, let answers end within the grace."""
    for close in app.on_close:
        close()
    await server.close(grace_seconds=grace_seconds)


def json_response(
    content: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an answer in JSON."""
    body = json.dumps(content).encode()
    return Response(body, status, "application/json", headers)


async def _handle(request: Request) -> Answer:
    return await request.app.find(request)(request)


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


def _first_of_each(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    return dict(reversed(pairs))
