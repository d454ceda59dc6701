import asyncio
import gzip
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time

import pytest

from deuz_proxy.sinks.otlp import Target
from deuz_proxy.sinks.otlp_http import HttpWay
from deuz_proxy.sinks.otlp_send import Outcome
from deuz_testing.forward_proxy import forward_proxy
from deuz_testing.otlp import refusing_endpoint, silent_collector
from deuz_testing.tls import certificate

__all__ = ["certificate"]

THROUGH = Outcome(is_through=True)


@dataclass(frozen=True)
class Heard:
    """One request: its target, headers and body, and the connection it came on."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


class Collector(ThreadingHTTPServer):
    """Answers with `status` and `answer_headers`, and closes if it `hangs_up`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.heard: list[Heard] = []
        self.status = 200
        self.answer_headers: dict[str, str] = {}
        self.answer = b""
        self.hangs_up = False
        self.url = f"http://127.0.0.1:{self.server_port}/v1/traces"

    def handle_error(self, *_: object) -> None:
        """Stay quiet: clients that leave in mid-way are what some tests are about."""


class Answer(BaseHTTPRequestHandler):
    server: Collector
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:  # The library's name.
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {key.lower(): value for key, value in self.headers.items()}
        port = self.client_address[1]
        self.server.heard.append(Heard(self.path, headers, body, port))
        self.send_response(self.server.status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)
        # Without a word of it: what a collector does with a connection at rest.
        self.close_connection = self.server.hangs_up

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server, serving(server):
        yield server


@pytest.fixture
def secure_collector(certificate: Path) -> Iterator[Collector]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with Collector() as server:
        server.url = f"https://localhost:{server.server_port}/"
        server.socket = context.wrap_socket(server.socket, server_side=True)
        with serving(server):
            yield server


@contextmanager
def serving(server: Collector) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield
    server.shutdown()
    thread.join()


@pytest.fixture
def way_to() -> Iterator[Callable[[Target], HttpWay]]:
    opened: list[HttpWay] = []

    def make(target: Target) -> HttpWay:
        opened.append(HttpWay(target))
        return opened[-1]

    yield make
    for way in opened:
        way.close()


Make = Callable[[Target], HttpWay]


def target(url: str) -> Target:
    return Target("traces", "http/protobuf", url)


def test_body_arrives_as_a_post_of_the_protocol(
    collector: Collector, way_to: Make
) -> None:
    assert way_to(target(collector.url)).attempt(b"spans", 30) == THROUGH

    (heard,) = collector.heard
    assert (heard.path, heard.body) == ("/v1/traces", b"spans")
    assert heard.headers["content-type"] == "application/x-protobuf"
    assert "content-encoding" not in heard.headers


def test_path_and_query_of_the_address_are_kept(
    collector: Collector, way_to: Make
) -> None:
    way_to(target(f"{collector.url}?tenant=a#x")).attempt(b"", 30)

    assert collector.heard[0].path == "/v1/traces?tenant=a"


def test_configured_headers_go_along(collector: Collector, way_to: Make) -> None:
    way_to(replace(target(collector.url), headers={"x-key": "s"})).attempt(b"", 30)

    assert collector.heard[0].headers["x-key"] == "s"


def test_name_and_password_of_the_address_become_a_header(
    collector: Collector, way_to: Make
) -> None:
    url = collector.url.replace("127", "me:p%40ss@127", 1)

    assert way_to(target(url)).attempt(b"", 30) == THROUGH
    # "me:p@ss".
    assert collector.heard[0].headers["authorization"] == "Basic bWU6cEBzcw=="


@pytest.mark.parametrize(
    ("compression", "unpack"), [("gzip", gzip.decompress), ("deflate", zlib.decompress)]
)
def test_body_is_packed_where_that_is_asked(
    collector: Collector,
    way_to: Make,
    compression: str,
    unpack: Callable[[bytes], bytes],
) -> None:
    way_to(replace(target(collector.url), compression=compression)).attempt(
        b"x" * 99, 30
    )

    (heard,) = collector.heard
    assert heard.headers["content-encoding"] == compression
    assert unpack(heard.body) == b"x" * 99


def test_connection_is_kept(collector: Collector, way_to: Make) -> None:
    way = way_to(target(collector.url))
    collector.answer = b"{}"

    assert [way.attempt(b"", 30) for _ in range(3)] == [THROUGH] * 3

    assert len({heard.connection for heard in collector.heard}) == 1


def test_connection_that_the_collector_closed_costs_nothing(
    collector: Collector, way_to: Make
) -> None:
    way = way_to(target(collector.url))
    collector.hangs_up = True

    assert [way.attempt(b"", 30) for _ in range(3)] == [THROUGH] * 3

    assert len({heard.connection for heard in collector.heard}) == 3


def test_long_answer_is_not_read_to_its_end(collector: Collector, way_to: Make) -> None:
    way = way_to(target(collector.url))
    collector.answer = b"x" * 100_000

    assert [way.attempt(b"", 30) for _ in range(2)] == [THROUGH] * 2

    assert len({heard.connection for heard in collector.heard}) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_busy_collector_is_passing(
    collector: Collector, way_to: Make, status: int
) -> None:
    collector.status = status

    outcome = way_to(target(collector.url)).attempt(b"", 30)

    assert outcome == Outcome(is_through=False, word=str(status), is_passing=True)


@pytest.mark.parametrize("status", [301, 400, 401, 413, 500])
def test_refused_is_not_passing_and_no_redirect_is_followed(
    collector: Collector, way_to: Make, status: int
) -> None:
    collector.status = status
    collector.answer_headers = {"location": collector.url}

    outcome = way_to(target(collector.url)).attempt(b"", 30)

    assert outcome == Outcome(is_through=False, word=str(status))
    assert len(collector.heard) == 1


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7", 7.0), (formatdate(0, usegmt=True), 0.0), ("soon", None)],
)
def test_collector_says_how_long_to_wait(
    collector: Collector, way_to: Make, said: str, seconds: float | None
) -> None:
    collector.status = 503
    collector.answer_headers = {"retry-after": said}

    assert way_to(target(collector.url)).attempt(b"", 30).wait_seconds == seconds


def test_collector_says_until_when_to_wait(collector: Collector, way_to: Make) -> None:
    collector.status = 503
    collector.answer_headers = {"retry-after": formatdate(time() + 500, usegmt=True)}

    outcome = way_to(target(collector.url)).attempt(b"", 30)

    assert outcome.wait_seconds == pytest.approx(500, abs=100)


def test_collector_that_cannot_be_reached_is_passing(way_to: Make) -> None:
    outcome = way_to(target(refusing_endpoint())).attempt(b"", 30)

    assert outcome.word == "ConnectionRefusedError"
    assert outcome.is_passing


def test_silent_collector_is_waited_for_no_longer_than_the_limit(way_to: Make) -> None:
    with silent_collector() as endpoint:
        way = way_to(target(endpoint))

        outcome = way.attempt(b"", 0.05)

    assert outcome.word == "TimeoutError"
    assert outcome.is_passing


@pytest.mark.parametrize(
    "url", ["", "collector:4318", "ftp://collector/", "http://", "http://x:99999/"]
)
def test_address_that_is_none_is_an_outcome(way_to: Make, url: str) -> None:
    outcome = way_to(target(url)).attempt(b"", 1)

    assert not outcome.is_through
    assert not outcome.is_passing


def test_certificate_of_the_config_proves_the_collector(
    secure_collector: Collector, certificate: Path, way_to: Make
) -> None:
    doubting = target(secure_collector.url)
    trusting = replace(doubting, certificate=str(certificate / "cert.pem"))

    assert way_to(trusting).attempt(b"spans", 30) == THROUGH
    assert way_to(doubting).attempt(b"spans", 30).word == "SSLCertVerificationError"
    assert [heard.body for heard in secure_collector.heard] == [b"spans"]


def test_missing_certificate_is_an_outcome(way_to: Make) -> None:
    here = target("https://127.0.0.1:9/")

    for missing in (
        replace(here, certificate="/nowhere.pem"),
        replace(here, client_certificate="/nowhere.pem"),
    ):
        assert way_to(missing).attempt(b"", 1).word == "FileNotFoundError"


@dataclass(frozen=True)
class Proxy:
    host: str
    port: int
    authorization: bytes | None = b"Basic bWU6"


def test_forward_proxy_is_told_the_whole_address(collector: Collector) -> None:
    asked: list[tuple[str, str, int]] = []

    def find(scheme: str, host: str, port: int) -> Proxy:
        asked.append((scheme, host, port))
        return Proxy("127.0.0.1", collector.server_port)

    way = HttpWay(target("http://me:pw@collector.example:4318/v1/traces?a"), find)

    assert way.attempt(b"", 30) == THROUGH
    way.close()

    (heard,) = collector.heard
    assert asked == [("http", "collector.example", 4318)]
    assert heard.path == "http://collector.example:4318/v1/traces?a"
    assert heard.headers["host"] == "collector.example:4318"
    assert heard.headers["proxy-authorization"] == "Basic bWU6"


async def test_forward_proxy_opens_a_tunnel_to_a_secure_collector(
    secure_collector: Collector, certificate: Path
) -> None:
    trusting = replace(
        target(secure_collector.url), certificate=str(certificate / "cert.pem")
    )
    async with forward_proxy() as proxy:
        way = HttpWay(trusting, lambda *_: Proxy("127.0.0.1", proxy.port))

        outcome = await asyncio.to_thread(way.attempt, b"spans", 30)
        way.close()

    assert outcome == THROUGH
    assert proxy.line(b"proxy-authorization") == [b"Basic bWU6"]
    (heard,) = secure_collector.heard
    assert (heard.path, heard.body) == ("/", b"spans")
