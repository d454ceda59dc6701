"""An upstream behind TLS, and the certificate by which it proves its name."""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def make_certificate(folder: Path) -> Path:
    """Make `cert.pem`, which vouches for itself as localhost, and `key.pem`."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
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
