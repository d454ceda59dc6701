"""How a sidecar of several processes ends: asked, asked twice, killed."""

import contextlib
import http.client
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deuz_testing.otlp import Collector, running_collector
from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.waiting import WAIT_SECONDS, block_until, is_running
from deuz_testing.workers import BODY, config, workers_of

pytestmark = pytest.mark.e2e


class Stream:
    """An upstream that streams until it is told to end."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def begin(self) -> socket.socket:
        connection, _ = self.listener.accept()
        connection.recv(65_536)
        connection.sendall(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
        )
        return connection


@pytest.fixture
def stream() -> Iterator[Stream]:
    made = Stream()
    yield made
    made.listener.close()


@contextlib.contextmanager
def open_stream(sidecar: Sidecar, stream: Stream) -> Iterator[tuple[Any, Any]]:
    """Begin an answer; yields the client's end and the upstream's."""
    host = urlsplit(sidecar.url).netloc
    client = http.client.HTTPConnection(host, timeout=WAIT_SECONDS)
    client.request("POST", "/v1/chat/completions", BODY)
    upstream = stream.begin()
    answer = client.getresponse()
    assert answer.read1(5) == b"first"
    yield answer, upstream
    upstream.close()
    client.close()


def test_a_drain_waits_for_what_runs_and_tells_it_before_it_ends(
    tmp_path: Path, stream: Stream
) -> None:
    with running_collector() as collector:
        text = config(stream.url) + (
            f'telemetry: {{otlp: {{endpoint: "{collector.endpoint}"}}}}\n'
        )
        with running_sidecar(tmp_path, text, workers=2) as sidecar:
            workers = workers_of(sidecar)
            with open_stream(sidecar, stream) as (answer, upstream):
                sidecar.process.send_signal(signal.SIGTERM)
                block_until(lambda: refuses(sidecar.url))
                assert sidecar.process.poll() is None
                upstream.sendall(b"4\r\nlast\r\n0\r\n\r\n")
                assert answer.read() == b"last"

            assert sidecar.process.wait(WAIT_SECONDS) == 0
        assert not any(is_running(worker) for worker in workers)
        assert_told_to(collector)


def assert_told_to(collector: Collector) -> None:
    spans = {span.name: span for span in collector.spans()}
    assert set(spans) == {"POST /v1/chat/completions", "chat gpt-5"}
    server, call = spans["POST /v1/chat/completions"], spans["chat gpt-5"]
    assert call.parent_span_id == server.span_id
    assert call.trace_id == server.trace_id
    assert len(collector.resource()["service.instance.id"]) == 36  # type: ignore[arg-type]
    requests = collector.last_metrics()["deuz.requests"].sum.data_points
    assert [point.as_double or point.as_int for point in requests] == [1]


def refuses(url: str) -> bool:
    try:
        socket.create_connection(
            (urlsplit(url).hostname, urlsplit(url).port), timeout=WAIT_SECONDS
        ).close()
    except ConnectionError:
        return True
    return False


def test_a_second_signal_ends_all_at_once(tmp_path: Path, stream: Stream) -> None:
    text = config(stream.url, drain=60)
    with running_sidecar(tmp_path, text, workers=2) as sidecar:
        workers = workers_of(sidecar)
        with open_stream(sidecar, stream):
            sidecar.process.send_signal(signal.SIGTERM)
            block_until(lambda: refuses(sidecar.url))

            sidecar.process.send_signal(signal.SIGTERM)

            assert sidecar.process.wait(WAIT_SECONDS) == -signal.SIGTERM
            block_until(lambda: not any(is_running(worker) for worker in workers))


def test_workers_of_a_keeper_that_was_killed_end_behind_what_runs(
    tmp_path: Path, stream: Stream
) -> None:
    with running_sidecar(tmp_path, config(stream.url), workers=2) as sidecar:
        workers = workers_of(sidecar)
        with open_stream(sidecar, stream) as (answer, upstream):
            sidecar.process.kill()
            block_until(lambda: refuses(sidecar.url))
            upstream.sendall(b"4\r\nlast\r\n0\r\n\r\n")

            assert answer.read() == b"last"
        block_until(lambda: not any(is_running(worker) for worker in workers))


def test_signals_of_a_terminal_are_the_keepers(tmp_path: Path, stream: Stream) -> None:
    with running_sidecar(tmp_path, config(stream.url), workers=2) as sidecar:
        with open_stream(sidecar, stream) as (answer, upstream):
            for process in (*workers_of(sidecar), sidecar.process.pid):
                os.kill(process, signal.SIGINT)
            block_until(lambda: refuses(sidecar.url))
            upstream.sendall(b"4\r\nlast\r\n0\r\n\r\n")

            assert answer.read() == b"last"
        assert sidecar.process.wait(WAIT_SECONDS) == 0
        assert "started again" not in sidecar.log.read_text()
