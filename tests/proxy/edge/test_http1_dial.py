"""New connections through a real forward proxy: plain, and in a tunnel for TLS."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.edge.proxies import Proxies, Proxy
from deuz_proxy.errors import UpstreamUnreachable
from deuz_testing.forward_proxy import forward_proxy
from deuz_testing.tls import certificate, tls_upstream
from deuz_testing.upstreams import raw_upstream

ON_BOTH_LOOPS = True

__all__ = ["certificate"]


class Leading(Proxies):
    """Leads to loopback too, where the upstreams of tests are."""

    def __init__(self, port: int, authorization: bytes | None = None) -> None:
        super().__init__({})
        self._proxy = Proxy("127.0.0.1", port, authorization)

    def find(self, scheme: str, host: str, port: int) -> Proxy | None:
        return self._proxy


@asynccontextmanager
async def through(
    proxies: Proxies, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Http1Upstreams]:
    upstreams = await Http1Upstreams(
        connect_seconds=30, idle_seconds=30, tls=tls, proxies=proxies
    ).open()
    yield upstreams
    await upstreams.close()


async def ask(upstreams: Http1Upstreams, base: str, body: bytes) -> Http1Reply:
    lines = ((b"Host", b"sidecar"), (b"X-A", b"1"))
    return await upstreams.send(
        method="POST", base=base, path="/v1//x?a=%2F", headers=lines, body=body
    )


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


async def test_a_plain_request_goes_to_the_proxy_with_its_whole_address() -> None:
    async with (
        raw_upstream() as upstream,
        forward_proxy() as proxy,
        through(Leading(proxy.port, b"Basic c2VjcmV0")) as upstreams,
    ):
        for body in (b"one", b"two"):
            assert await read(await ask(upstreams, f"{upstream.url}/base", body)) == (
                b"ok"
            )

        place = upstream.url.removeprefix("http://").encode()
        assert proxy.heads[0].startswith(
            b"POST http://%b/base/v1//x?a=%%2F HTTP/1.1\r\n" % place
        )
        assert proxy.line(b"host") == [place]
        assert proxy.line(b"proxy-authorization") == [b"Basic c2VjcmV0"]
        assert upstream.requests[0].target == b"/base/v1//x?a=%2F"
        assert [got.body for got in upstream.requests] == [b"one", b"two"]


async def test_tls_is_spoken_with_the_upstream_in_a_tunnel(certificate: Path) -> None:
    trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
    trusted.set_alpn_protocols(["http/1.1"])
    async with (
        tls_upstream(certificate) as (url, bodies),
        forward_proxy() as proxy,
        through(Leading(proxy.port, b"Basic c2VjcmV0"), trusted) as upstreams,
    ):
        for body in (b"secret one", b"secret two" * 100_000):
            assert await read(await ask(upstreams, url, body)) == body

        place = url.removeprefix("https://").encode()
        assert proxy.heads == [
            b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n"
            b"Proxy-Authorization: Basic c2VjcmV0\r\n\r\n" % (place, place)
        ]
        assert len(bodies) == 2


async def test_a_proxy_that_refuses_a_tunnel_makes_the_upstream_unreachable() -> None:
    async with (
        forward_proxy(refuses=True) as proxy,
        through(Leading(proxy.port, b"Basic c2VjcmV0")) as upstreams,
    ):
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(upstreams, "https://api.example.com", b"secret")

        assert caught.value.kind == "proxy"
        assert "c2VjcmV0" not in str(caught.value)
        assert len(proxy.heads) == 1


SAYINGS = [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: 1", b"x" * 20_000, b""]


@pytest.mark.parametrize("said", SAYINGS)
async def test_a_proxy_that_speaks_otherwise_makes_the_upstream_unreachable(
    said: bytes,
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, through(Leading(server.sockets[0].getsockname()[1])) as to:
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(to, "https://api.example.com", b"secret")

    assert caught.value.kind == "proxy"


async def test_a_dead_proxy_makes_the_upstream_unreachable() -> None:
    async with through(Leading(1)) as upstreams:
        with pytest.raises(UpstreamUnreachable, match="no way through") as caught:
            await ask(upstreams, "http://api.example.com", b"x")

    assert caught.value.kind == "proxy"


async def test_a_proxy_that_cannot_be_used_makes_the_upstream_unreachable() -> None:
    proxies = Proxies({"ALL_PROXY": "socks5://p:1"})
    async with raw_upstream() as upstream, through(proxies) as upstreams:
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(upstreams, "http://api.example.com", b"x")
        direct = await ask(upstreams, upstream.url, b"x")

    assert caught.value.kind == "proxy"
    assert direct.status == 200


async def test_a_silent_proxy_is_waited_for_no_longer_than_an_upstream() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstreams = await Http1Upstreams(
            connect_seconds=0.1,
            idle_seconds=5,
            proxies=Leading(silent.getsockname()[1]),
        ).open()
        with pytest.raises(UpstreamUnreachable) as caught:
            await ask(upstreams, "https://api.example.com", b"x")
        await upstreams.close()

    assert caught.value.kind == "timeout"
