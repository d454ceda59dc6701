"""A provider on a local port: no network, no key, the rules of the real ones.

Rules:
- Every request is logged as it was received before anything is decided about it.
- A broken rule is answered by the wire's own status and words; `rule` in the log says
  which one it was.
- A client that leaves cancels its handler, and the log says so.
"""

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from deuz_proxy.demo.provider.answers import compose_answer
from deuz_proxy.demo.provider.engine import Accepted, Engine, Settings
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    GEMINI,
    OLLAMA,
    OTHER,
    RESPONSES,
    Answer,
    Finished,
    Json,
    LoggedRequest,
    ProviderRequest,
    RawReply,
    Refusal,
    Reply,
    Script,
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.models import spell_models
from deuz_proxy.demo.provider.receiving import receive_body, understand_request
from deuz_proxy.demo.provider.routing import (
    Route,
    find_credential,
    find_route,
    missing_credential,
)
from deuz_proxy.demo.provider.sending import (
    EVENT_STREAM,
    JSON,
    LINES,
    send_events,
    send_raw,
    send_whole,
)
from deuz_proxy.demo.provider.shape_responses import spell_failed_events
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.window import OVERFLOW
from deuz_proxy.demo.provider.wires import WIRES, spell_error

HEADER_BYTES = 65_536  # Codex sends its turn as one header of several kilobytes.
GRACE_SECONDS = 0.2


@dataclass(slots=True)
class FakeProvider:
    """The fake provider; its fields are its settings.

    `script` is asked before the model and may answer in its place; it sees only
    requests that broke no rule, and paths that no wire claims. `keep_requests` off
    keeps counts only. One event loop owns an instance.
    """

    window_tokens: int = 200_000
    model_windows: Mapping[str, int] = field(default_factory=dict)
    minimum_cached_tokens: int = 1_024
    cache_step_tokens: int = 128
    clock: Callable[[], float] = time.time
    script: Script | None = None
    alternate: bool = False
    require_key: bool = False
    keep_requests: bool = True
    secret: bytes = b"fake provider"
    requests: list[LoggedRequest] = field(default_factory=list, init=False)
    counts: Counter[str] = field(default_factory=Counter, init=False)
    host: str = field(default="127.0.0.1", init=False)
    port: int = field(default=0, init=False)
    _engine: Engine = field(init=False)
    _runner: web.ServerRunner | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Build the engine that these settings describe."""
        settings = Settings(
            window_tokens=self.window_tokens,
            model_windows=self.model_windows,
            minimum_cached_tokens=self.minimum_cached_tokens,
            cache_step_tokens=self.cache_step_tokens,
            alternate=self.alternate,
        )
        self._engine = Engine(settings, Signer(self.secret))

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 picks a free one, then read `port`."""
        server = web.Server(
            self._serve,
            handler_cancellation=True,
            auto_decompress=False,
            max_field_size=HEADER_BYTES,
            max_line_size=HEADER_BYTES,
            access_log=None,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=GRACE_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.host, self.port = host, self._runner.addresses[0][1]

    @property
    def url(self) -> str:
        """The address to point a client at, without a path."""
        return f"http://{self.host}:{self.port}"

    @property
    def refused(self) -> tuple[LoggedRequest, ...]:
        """The logged requests that were answered with an error of the provider."""
        return tuple(logged for logged in self.requests if logged.rule is not None)

    async def close(self) -> None:
        """Stop listening and drop open connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        logged = LoggedRequest(
            method=request.method,
            raw_path=request.raw_path,
            headers=tuple(request.raw_headers),
            body=await receive_body(request),
        )
        if self.keep_requests:
            self.requests.append(logged)
        self.counts["requests"] += 1
        exchange = _Exchange(request, logged, f"fake{self.counts['requests']:08d}")
        try:
            response = await self._answer(exchange)
            logged.is_complete = True
        except (asyncio.CancelledError, ConnectionError):
            logged.is_client_gone = True
            raise
        finally:
            self.counts[f"{logged.wire} {logged.status}"] += 1
        return response

    async def _answer(self, exchange: "_Exchange") -> web.StreamResponse:
        request, logged = exchange.request, exchange.logged
        headers = {name.lower(): value for name, value in request.headers.items()}
        route = find_route(request.method, request.path, headers)
        logged.wire = route.wire
        if self.require_key and not find_credential(headers, request.query):
            return await exchange.refuse(missing_credential(route.wire))
        if route.purpose == "models":
            return await self._tell_models(exchange, route)
        understood = understand_request(request, route, logged)
        if isinstance(understood, Refusal):
            return await exchange.refuse(understood)
        logged.model = understood.model
        exchange.understood = understood
        if route.wire == OTHER:
            return await self._answer_other(exchange, understood)
        return await self._answer_wire(exchange, understood)

    async def _answer_wire(
        self, exchange: "_Exchange", asked: ProviderRequest
    ) -> web.StreamResponse:
        now = self.clock()
        exchange.created = int(now)
        held = self._engine.recall_held(asked)
        if isinstance(held, Refusal):
            return await exchange.refuse(held)
        judged = self._engine.judge(held, now)
        if isinstance(judged, Refusal):
            return await exchange.refuse(judged)
        if asked.purpose == "count":
            return await exchange.send_json(_spell_count(judged))
        answer = await self._ask_script(judged.request)
        if answer is None:
            answer = compose_answer(judged.request, judged.ask)
        if not isinstance(answer, Reply):
            return await exchange.send_unusual(answer)
        if answer.first_byte_seconds:
            await asyncio.sleep(answer.first_byte_seconds)
        finished = self._engine.finish(
            judged, answer, created=exchange.created, serial=exchange.serial
        )
        return await exchange.send_reply(finished)

    async def _answer_other(
        self, exchange: "_Exchange", asked: ProviderRequest
    ) -> web.StreamResponse:
        answer = await self._ask_script(asked)
        if answer is not None and not isinstance(answer, Reply):
            return await exchange.send_unusual(answer)
        if asked.raw_path == "/":
            # Claude Code looks whether anybody is there before its first request.
            return await exchange.send_json({})
        path = exchange.request.path
        invalid = f"Invalid URL ({exchange.logged.method} {path})"
        return await exchange.refuse(Refusal("unknown_path", invalid, status=404))

    async def _ask_script(self, asked: ProviderRequest) -> Answer | None:
        if self.script is None:
            return None
        answer = self.script(asked)
        return await answer if inspect.isawaitable(answer) else answer

    async def _tell_models(
        self, exchange: "_Exchange", route: Route
    ) -> web.StreamResponse:
        told = spell_models(route, self.window_tokens)
        if isinstance(told, Refusal):
            return await exchange.refuse(told)
        return await exchange.send_json(told)


@dataclass(slots=True)
class _Exchange:
    """One request on its way back: sends exactly one answer and logs it."""

    request: web.BaseRequest
    logged: LoggedRequest
    serial: str
    understood: ProviderRequest | None = None
    created: int = 0

    async def send_json(self, payload: Json, status: int = 200) -> web.StreamResponse:
        self.logged.status = status
        body = compact(payload).encode("utf-8", "surrogatepass")
        return await send_whole(
            self.request, body, status=status, headers=self._headers(JSON)
        )

    async def send_unusual(self, answer: RawReply | Refusal) -> web.StreamResponse:
        if isinstance(answer, Refusal):
            return await self.refuse(answer)
        self.logged.status = answer.status
        return await send_raw(self.request, answer)

    async def refuse(self, refusal: Refusal) -> web.StreamResponse:
        self.logged.rule = refusal.rule
        asked = self.understood
        is_streamed = asked is not None and asked.is_streamed
        wire = self.logged.wire
        if is_streamed and wire == RESPONSES and refusal.rule == OVERFLOW and asked:
            self.logged.status = 200
            events = spell_failed_events(
                asked, refusal, serial=self.serial, created=self.created
            )
            return await send_events(
                self.request, events, headers=self._headers(EVENT_STREAM)
            )
        error = spell_error(wire, refusal, self.serial)
        if wire == GEMINI and is_streamed and self.request.query.get("alt") != "sse":
            self.logged.status = refusal.status
            body = compact([error]).encode("utf-8", "surrogatepass")
            return await send_whole(self.request, body, status=refusal.status)
        return await self.send_json(error, refusal.status)

    async def send_reply(self, finished: Finished) -> web.StreamResponse:
        self.logged.status = 200
        self.logged.usage = finished.counts
        wire = WIRES[finished.request.wire]
        reply = finished.reply
        if not finished.request.is_streamed:
            body = compact(wire.spell(finished)).encode("utf-8", "surrogatepass")
            return await send_whole(
                self.request,
                body,
                headers=self._headers(JSON),
                is_cut=reply.cut_after is not None,
            )
        return await send_events(
            self.request,
            wire.stream(finished),
            headers=self._headers(self._stream_type()),
            pause_seconds=reply.pause_seconds,
            cut_after=reply.cut_after,
        )

    def _stream_type(self) -> str:
        if self.logged.wire in OLLAMA:
            return LINES
        is_array = self.logged.wire == GEMINI and self.request.query.get("alt") != "sse"
        return JSON if is_array else EVENT_STREAM

    def _headers(self, content_type: str) -> dict[str, str]:
        name = "request-id" if self.logged.wire == ANTHROPIC else "x-request-id"
        return {"Content-Type": content_type, name: f"req_{self.serial}"}


def _spell_count(judged: Accepted) -> Json:
    wire = judged.request.wire
    counted: Json = {WIRES[wire].count_member: judged.tokens}
    return (
        {"object": "response.input_tokens", **counted} if wire == RESPONSES else counted
    )


async def run_provider(
    host: str,
    port: int,
    *,
    announce: Callable[[str], None],
    window_tokens: int = 200_000,
    require_key: bool = False,
) -> None:
    """Serve until cancelled; `announce` is told the address when it listens.

    Only counts are kept, never what was sent.
    """
    provider = FakeProvider(
        window_tokens=window_tokens, require_key=require_key, keep_requests=False
    )
    await provider.start(host, port)
    announce(provider.url)
    try:
        await asyncio.Event().wait()
    finally:
        await provider.close()
