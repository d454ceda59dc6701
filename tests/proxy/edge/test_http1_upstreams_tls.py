"""Upstreams behind TLS: bodies of every size, names that must be proved."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deuz_compiler import Spliced
from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import UpstreamUnreachable
from deuz_testing.tls import certificate, tls_upstream

ON_BOTH_LOOPS = True

__all__ = ["certificate"]


@pytest_asyncio.fixture
async def upstreams() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    yield opened
    await opened.close()


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


async def test_bodies_pass_through_tls_and_the_connection_is_used_again(
    certificate: Path,
) -> None:
    trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
    trusted.set_alpn_protocols(["http/1.1"])
    async with tls_upstream(certificate) as (url, bodies):
        upstreams = await Http1Upstreams(
            connect_seconds=30, idle_seconds=30, tls=trusted
        ).open()
        large = bytes(range(256)) * 8_000
        views = memoryview(large)[:300_000], b"ours", memoryview(large)[300_000:]
        pieces = Spliced(views, len(large) + 4), Spliced((b"a", b"b"), 2)
        for sent in (b"small", large, b"small again", *pieces):
            body = bytes(sent)
            reply = await upstreams.send(
                method="POST", base=url, path="/", headers=(), body=sent
            )

            assert await read(reply) == body
            assert bodies[-1] == body
            assert len(upstreams._connections) == 1
        await upstreams.close()


async def test_an_upstream_that_cannot_prove_its_name_is_unreachable(
    certificate: Path, upstreams: Http1Upstreams
) -> None:
    async with tls_upstream(certificate) as (url, bodies):
        with pytest.raises(UpstreamUnreachable, match="TLS"):
            await upstreams.send(
                method="POST", base=url, path="/", headers=(), body=b"secret"
            )

        assert bodies == []
