"""The connections to all upstreams: made, lent for one exchange, kept or ended.

Rules:
- Nothing is followed, decoded, retried or added: the upstream gets the client's lines,
  with its own name where theirs stood and the length of what is really sent.
- A connection is reused, the newest first, only if the kernel says that it is open and
  silent, and takes the request's first bytes; otherwise the next one is tried, then a
  new one made. Once the kernel has taken a byte of it, a request is never sent again.
- Who closes an idle connection first should be us: we keep it for less time than common
  servers do, and than the upstream says in `Keep-Alive`.
- A forward proxy is used where the rules of `proxies` find one. It gets the whole
  address of a plain request, and of an encrypted one a tunnel's ends only.
- Every foreign exception becomes an error of ours here.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Self
from urllib.parse import quote, urlsplit

from deuz_compiler import Spliced
from deuz_proxy.calls import Letterhead, Outgoing, header
from deuz_proxy.edge.headers import joined_head, request_headers
from deuz_proxy.edge.http1_answers import Inform
from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_departures import (
    SLICE_BYTES,
    Body,
    Departures,
    NothingSent,
    slices,
    write_first,
)
from deuz_proxy.edge.http1_dial import Dialler, Place
from deuz_proxy.edge.http1_reply import Http1Reply, reply_of
from deuz_proxy.edge.http1_turn import Turn
from deuz_proxy.edge.http1_wire import Lines
from deuz_proxy.edge.proxies import NO_PROXIES, NoWayThrough, Proxies
from deuz_proxy.edge.reaching import unreachable
from deuz_proxy.errors import UpstreamBroken, UpstreamUnreachable

Headers = Sequence[tuple[bytes, bytes]]

# Servers of one's own often keep 5 s (uvicorn, Node), and a new connection is cheap;
# what providers have in front keeps a minute and more, and TLS is dear.
_PLAIN_IDLE_SECONDS, _TLS_IDLE_SECONDS = 4.0, 30.0
# Of what an upstream grants: its clock began when it had answered, and ours is late.
_GRANTED_SHARE = 0.75
# Names move; a connection that never pauses would never notice.
_OLD_SECONDS = 600.0
_MOST_IDLE = 256
_SWEEP_SECONDS = 0.5
_HERE = bytes, Spliced
_MOST_ORIGINS = 1024
_PORTS = {"http": 80, "https": 443}
_URL_SAFE = "/%:@!$&'()*+,;=~"
# Stands where a length goes: no head that was read has it.
_LENGTH = b"\0"


class Origin:
    """Where an upstream is, and its idle connections, the newest last."""

    __slots__ = ("authority", "base", "idle", "is_tls", "own", "place", "prefix")

    def __init__(self, base: str, proxies: Proxies) -> None:
        self.base = base
        url = urlsplit(base)
        host, usual = url.hostname or "", _PORTS[url.scheme]
        port = url.port or usual
        proxy = proxies.find(url.scheme, host, port)
        self.is_tls = url.scheme == "https"
        self.place = Place(host, port, self.is_tls, proxy)
        self.authority = self.place.name + (b"" if port == usual else b":%d" % port)
        self.prefix = quote(url.path.rstrip("/"), safe=_URL_SAFE).encode()
        # The lines that are this hop's own in every request.
        self.own = {b"host": self.authority}
        if proxy is not None and not self.is_tls:
            self.prefix = b"http://" + self.authority + self.prefix
            if proxy.authorization is not None:
                self.own[b"proxy-authorization"] = proxy.authorization
        self.idle: list[Connection] = []


class Http1Upstreams:
    """The connections to all upstreams. Owned by the app, closed once."""

    def __init__(
        self,
        *,
        connect_seconds: float,
        idle_seconds: float,
        tls: ssl.SSLContext | None = None,
        proxies: Proxies = NO_PROXIES,
        turn: Turn | None = None,
    ) -> None:
        self._given_turn = turn
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._tls = tls
        self._proxies = proxies
        self._origins: dict[str, Origin] = {}
        self._connections: dict[Connection, Origin] = {}
        self._tasks = asyncio.TaskGroup()
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop
        self._dialler: Dialler
        self._turn: Turn
        self._departures: Departures

    async def open(self) -> Self:
        """Open inside the running loop."""
        self._loop = asyncio.get_running_loop()
        self._dialler = Dialler(self._tls)
        self._turn = self._given_turn or Turn(self._loop)
        self._departures = Departures(self._turn, self._write)
        await self._tasks.__aenter__()
        self._sweep()
        return self

    async def send(  # noqa: PLR0913  # A request has that many parts.
        self,
        *,
        method: str,
        base: str,
        path: str,
        headers: Headers,
        body: Body,
        upgrade: bytes | None = None,
        inform: Inform | None = None,
        letterhead: Letterhead | None = None,
    ) -> Http1Reply:
        """Send the request and return once the answer's head is there.

        With `upgrade`, the upstream is asked to switch to that protocol. `inform` gets
        interim answers. The head is written once for all requests of a letterhead.

        Raises:
            UpstreamUnreachable: no connection could be made.
            UpstreamBroken: the connection ended before the head.
            SidecarError: reading the streamed body failed with it.
        """
        origin = self._origin(base)
        verb, length = method.encode("latin-1"), _length_of(headers, body)
        own = _own_lines(headers, body, upgrade)
        if length is not None and not own:
            head = _outgoing(origin, verb, path, headers, letterhead).around(length)
        else:
            head = _written(origin, verb, path, headers, own | _framing(length, body))
        while True:
            if self._sweeping is None:
                raise UpstreamUnreachable(upstream=base)
            idle = self._idle(origin)
            connection = idle or await self._connect(origin, base)
            exchange = connection.prepare(
                verb, is_switch=upgrade is not None, inform=inform
            )
            self._departures.add(connection, exchange, head, body, length)
            try:
                answer = await connection.answer_head(exchange)
            except NothingSent as fault:
                if idle is None:
                    raise UpstreamBroken(upstream=base) from fault
            except BaseException:
                connection.abort()
                raise
            else:
                return reply_of(connection, exchange, answer, self._keep)

    async def close(self) -> None:
        """End all connections."""
        if self._sweeping is None:
            return
        self._sweeping.cancel()
        self._sweeping = None
        for connection in list(self._connections):
            connection.abort()
        await self._tasks.__aexit__(None, None, None)
        # Let transports finish closing before the loop ends.
        await asyncio.sleep(0)

    def _origin(self, base: str) -> Origin:
        origin = self._origins.get(base)
        if origin is None:
            if len(self._origins) >= _MOST_ORIGINS:
                self._origins.clear()
            try:
                origin = self._origins[base] = Origin(base, self._proxies)
            except NoWayThrough as fault:
                raise unreachable(base, fault) from fault
        return origin

    def _idle(self, origin: Origin) -> Connection | None:
        now = self._loop.time()
        while origin.idle:
            connection = origin.idle.pop()
            if now < connection.idle_until and not connection.transport.is_closing():
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin, base: str) -> Connection:
        made = Connection(
            base,
            self._turn,
            enter=lambda entered: self._connections.update({entered: origin}),
            leave=self._lose,
        )
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self._dialler.dial(origin.place, made)
        except BaseException as fault:
            # The loop may make it all the same, or end it without a word to it.
            made.abort()
            self._lose(made)
            if isinstance(fault, OSError | UnicodeError):
                raise unreachable(base, fault) from fault
            raise
        return made

    def _write(
        self, connection: Connection, head: bytes, body: Body, length: bytes | None
    ) -> None:
        if connection.is_tls and isinstance(body, _HERE):
            # What is encrypted is copied anyway, in whatever pieces it is.
            body = slices(body) if len(body) > SLICE_BYTES else bytes(body)
        if body is None or isinstance(body, _HERE):
            write_first(connection, head, body)
            return
        write_first(connection, head, None)
        length_bytes = int(length) if length is not None else None
        connection.sending = self._tasks.create_task(
            connection.send_pieces(body, length_bytes=length_bytes)
        )

    def _keep(self, connection: Connection) -> None:
        origin = self._connections.get(connection)
        is_old = connection.since - connection.born > _OLD_SECONDS
        if origin is None or is_old or len(origin.idle) >= _MOST_IDLE:
            connection.abort()
            return
        seconds = _TLS_IDLE_SECONDS if origin.is_tls else _PLAIN_IDLE_SECONDS
        if connection.keep_seconds is not None:
            seconds = min(seconds, connection.keep_seconds * _GRANTED_SHARE)
        connection.idle_until = connection.since + seconds
        origin.idle.append(connection)

    def _lose(self, connection: Connection) -> None:
        origin = self._connections.pop(connection, None)
        if origin is not None and connection.is_idle and connection in origin.idle:
            origin.idle.remove(connection)

    def _sweep(self) -> None:
        """End what is idle for too long, or waits in vain."""
        now = self._loop.time()
        for connection in list(self._connections):
            connection.expire(now=now, idle_seconds=self._idle_seconds)
            if connection.is_idle and connection.idle_until < now:
                connection.abort()
        self._sweeping = self._loop.call_later(
            min(_SWEEP_SECONDS, self._idle_seconds / 4), self._sweep
        )


def request_head(method: bytes, target: bytes, lines: Lines) -> bytes:
    """Return a request's head as it is sent."""
    return joined_head(b"%b %b HTTP/1.1" % (method, target), lines)


def _outgoing(
    origin: Origin,
    verb: bytes,
    path: str,
    headers: Headers,
    letterhead: Letterhead | None,
) -> Outgoing:
    """Return a head that states a length; its letterhead may have it already."""
    kept = letterhead.outgoing if letterhead is not None else None
    if kept is not None and kept.base == origin.base and kept.path == path:
        return kept
    made = _rewritten(origin, path, letterhead) if letterhead is not None else None
    if made is None:
        head = _written(origin, verb, path, headers, {b"content-length": _LENGTH})
        before, _, behind = head.partition(_LENGTH)
        made = Outgoing(origin.base, path, before, behind)
    if letterhead is not None:
        letterhead.outgoing = made
    return made


def _rewritten(origin: Origin, path: str, letterhead: Letterhead) -> Outgoing | None:
    """Return the head of an earlier letterhead with the lines that changed.

    None if there is none, or a line does not stand there exactly once as it came: it
    may be dropped, this hop's own, or one of several.
    """
    earlier = letterhead.earlier[1]
    if earlier is None or earlier.base != origin.base or earlier.path != path:
        return None
    before, behind = earlier.before, earlier.behind
    for old, new in letterhead.changes:
        gone, come = b"\n%b: %b\r" % old, b"\n%b: %b\r" % new
        is_own = old[0].lower() in origin.own
        if is_own or before.count(gone) + behind.count(gone) != 1:
            return None
        before, behind = before.replace(gone, come), behind.replace(gone, come)
    return Outgoing(earlier.base, path, before, behind)


def _written(
    origin: Origin, verb: bytes, path: str, headers: Headers, own: dict[bytes, bytes]
) -> bytes:
    target = origin.prefix + path.encode("latin-1")
    return request_head(verb, target, request_headers(headers, origin.own | own))


def _length_of(headers: Headers, body: Body) -> bytes | None:
    """Return the length to state: of what is sent, or what the client says it is."""
    if isinstance(body, _HERE):
        return b"%d" % len(body)
    stated = header(headers, b"content-length")
    return b"0" if body is None and stated is not None else stated


def _framing(length: bytes | None, body: Body) -> dict[bytes, bytes]:
    """Return the line that says how long the body is."""
    if length is not None:
        return {b"content-length": length}
    return {} if body is None else {b"transfer-encoding": b"chunked"}


def _own_lines(
    headers: Headers, body: Body, upgrade: bytes | None
) -> dict[bytes, bytes]:
    """Return what asks the upstream to switch, or to say that it wants the body."""
    lines: dict[bytes, bytes] = {}
    if upgrade is not None:
        lines = {b"connection": b"Upgrade", b"upgrade": upgrade}
    if body is None or isinstance(body, _HERE):
        # For one that is here the client was asked.
        return lines
    stated = header(headers, b"expect") or b""
    return lines | {b"expect": stated} if stated.lower() == b"100-continue" else lines
