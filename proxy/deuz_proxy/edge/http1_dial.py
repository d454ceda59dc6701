"""A new connection to an upstream: by its addresses, or through a forward proxy.

Rules:
- Of several addresses the second is tried beside the first if that one is slow.
- Through a proxy, TLS is spoken with the upstream, in a tunnel that the proxy opens.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass

import aiohappyeyeballs

from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_framing import NotHttp
from deuz_proxy.edge.http1_wire import read_answer
from deuz_proxy.edge.proxies import NoWayThrough, Proxy

# RFC 8305 recommends it for the second address to be tried beside the first.
_SECOND_TRY_SECONDS = 0.25
_MOST_PROXY_HEAD_BYTES = 16_384
_FIRST_GOOD, _FIRST_REDIRECT = 200, 300
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an upstream is, and through which proxy, if any."""

    host: str
    port: int
    is_tls: bool
    proxy: Proxy | None = None

    @property
    def name(self) -> bytes:
        """The host as it stands in an address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host.encode("idna")


class Dialler:
    """Makes connections inside the running loop."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._tls = tls

    async def dial(self, place: Place, made: Connection) -> None:
        """Connect `made` to the place.

        Raises:
            OSError: it cannot be reached, or TLS failed; `NoWayThrough` of its proxy.
            UnicodeError: its name cannot be one.
        """
        sock = await self._reach(place)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await self._loop.create_connection(
            lambda: made,
            sock=sock,
            ssl=self._context() if place.is_tls else None,
            server_hostname=place.host if place.is_tls else None,
        )

    async def _reach(self, place: Place) -> socket.socket:
        proxy = place.proxy
        if proxy is None:
            return await self._connect(place.host, place.port)
        try:
            sock = await self._connect(proxy.host, proxy.port)
            if place.is_tls:
                await self._open_tunnel(sock, place, proxy)
        except (OSError, UnicodeError, NotHttp) as fault:
            raise NoWayThrough from fault
        return sock

    async def _connect(self, host: str, port: int) -> socket.socket:
        found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=_SECOND_TRY_SECONDS, loop=self._loop
        )

    async def _open_tunnel(
        self, sock: socket.socket, place: Place, proxy: Proxy
    ) -> None:
        at = b"%b:%d" % (place.name, place.port)
        text = b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n" % (at, at)
        if proxy.authorization is not None:
            text += b"Proxy-Authorization: %b\r\n" % proxy.authorization
        try:
            await self._loop.sock_sendall(sock, text + b"\r\n")
            await self._read_consent(sock)
        except BaseException:
            sock.close()
            raise

    async def _read_consent(self, sock: socket.socket) -> None:
        """Read the proxy's answer; byte for byte, as what follows is the upstream's."""
        head = b""
        while not head.endswith(_END):
            piece = await self._loop.sock_recv(sock, 1)
            head += piece
            if not piece or len(head) > _MOST_PROXY_HEAD_BYTES:
                raise NoWayThrough
        if (
            not _FIRST_GOOD
            <= read_answer(head, method=b"HEAD").status
            < _FIRST_REDIRECT
        ):
            raise NoWayThrough

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls
