"""Upstreams behind TLS: bodies of every size, names that must be proved."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import UpstreamUnreachable

ON_BOTH_LOOPS = True


@pytest_asyncio.fixture
async def upstreams() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=2, idle_seconds=5).open()
    yield opened
    await opened.close()


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@contextlib.asynccontextmanager
async def tls_upstream(folder: Path) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer each request over TLS with its own body; one at a time."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
                bodies.append(await reader.readexactly(size))
                protocol = writer.get_extra_info("ssl_object").selected_alpn_protocol()
                assert protocol == "http/1.1"
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                writer.write(bodies[-1])
        writer.close()

    bodies: list[bytes] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.set_alpn_protocols(["http/1.1"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", bodies
    finally:
        server.close()


async def test_bodies_pass_through_tls_and_the_connection_is_used_again(
    certificate: Path,
) -> None:
    trusted = ssl.create_default_context(cafile=certificate / "cert.pem")
    trusted.set_alpn_protocols(["http/1.1"])
    async with tls_upstream(certificate) as (url, bodies):
        upstreams = await Http1Upstreams(
            connect_seconds=2, idle_seconds=5, tls=trusted
        ).open()
        for body in (b"small", bytes(range(256)) * 8_000, b"small again"):
            reply = await upstreams.send(
                method="POST", base=url, path="/", headers=(), body=body
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
