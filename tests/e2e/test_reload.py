"""A sidecar as a process: reloads, drains and ends as an operator asks it to."""

import json
import os
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse, IncompleteRead
from pathlib import Path

import pytest

from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.waiting import WAIT_SECONDS, block_until

pytestmark = pytest.mark.e2e

CONFIG = """
upstreams: {{anthropic: {{url: "{url}", wire: anthropic}}}}
routes: [{{path: /v1/messages, mode: {mode}}}]
limits: {{drain_seconds: {drain}}}
"""


class Upstream:
    """An upstream in a thread that streams until it is told to end."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.streams: list[socket.socket] = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.recv(65_536)
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
            )
            self.streams.append(connection)

    def end(self) -> None:
        for stream in self.streams:
            stream.sendall(b"4\r\nlast\r\n0\r\n\r\n")

    def close(self) -> None:
        self.listener.close()
        for stream in self.streams:
            stream.close()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.close()


def config(upstream: Upstream, mode: str = "observe", drain: float = 5) -> str:
    return CONFIG.format(url=upstream.url, mode=mode, drain=drain)


def open_stream(sidecar: Sidecar) -> HTTPResponse:
    body = json.dumps({"model": "m", "messages": [], "stream": True}).encode()
    request = urllib.request.Request(f"{sidecar.url}/v1/messages", data=body)
    answer: HTTPResponse = urllib.request.urlopen(request, timeout=WAIT_SECONDS)
    return answer


def mode_of(sidecar: Sidecar) -> str:
    with urllib.request.urlopen(
        f"{sidecar.admin}/api/v1/config", timeout=WAIT_SECONDS
    ) as answer:
        mode: str = json.load(answer)["routes"][0]["mode"]
        return mode


def test_a_changed_file_is_taken_and_an_invalid_one_is_not(
    tmp_path: Path, upstream: Upstream
) -> None:
    with running_sidecar(tmp_path, config(upstream)) as sidecar:
        file = tmp_path / "deuz.yaml"
        assert mode_of(sidecar) == "observe"

        file.write_text(config(upstream, "compile"))
        block_until(lambda: mode_of(sidecar) == "compile")
        file.write_text(config(upstream, "compose"))
        block_until(lambda: "not taken" in sidecar.log.read_text())

        assert mode_of(sidecar) == "compile"
        assert "deuz.yaml:3" in sidecar.log.read_text()
        file.write_text(config(upstream, "off"))
        sidecar.process.send_signal(signal.SIGHUP)
        block_until(lambda: mode_of(sidecar) == "off")


def test_a_running_stream_is_finished_before_the_process_ends(
    tmp_path: Path, upstream: Upstream
) -> None:
    with running_sidecar(tmp_path, config(upstream)) as sidecar:
        stream = open_stream(sidecar)
        assert stream.read1(5) == b"first"

        sidecar.process.send_signal(signal.SIGTERM)
        block_until(lambda: _refuses(sidecar.url))
        assert sidecar.process.poll() is None
        upstream.end()

        assert stream.read() == b"last"
        assert sidecar.process.wait(WAIT_SECONDS) == 0


def _refuses(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/@nobody/x", timeout=WAIT_SECONDS).close()
    except urllib.error.HTTPError as answered:
        answered.close()
        return False
    except urllib.error.URLError as fault:
        # One that is slow to answer does not refuse.
        return isinstance(fault.reason, ConnectionError)
    except ConnectionError:
        return True
    return False


def test_a_stream_that_outlives_the_grace_is_cut_and_looks_cut(
    tmp_path: Path, upstream: Upstream
) -> None:
    with running_sidecar(tmp_path, config(upstream, drain=1)) as sidecar:
        stream = open_stream(sidecar)
        assert stream.read1(5) == b"first"

        sidecar.process.send_signal(signal.SIGTERM)
        with pytest.raises(IncompleteRead):
            stream.read()
        assert sidecar.process.wait(WAIT_SECONDS) == 0


def test_a_second_signal_ends_at_once(tmp_path: Path, upstream: Upstream) -> None:
    with running_sidecar(tmp_path, config(upstream, drain=60)) as sidecar:
        stream = open_stream(sidecar)
        assert stream.read1(5) == b"first"
        sidecar.process.send_signal(signal.SIGTERM)
        block_until(lambda: _refuses(sidecar.url))

        sidecar.process.send_signal(signal.SIGTERM)

        assert sidecar.process.wait(WAIT_SECONDS) == -signal.SIGTERM
        stream.close()


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs /proc")
def test_reloads_leave_no_files_open(tmp_path: Path, upstream: Upstream) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("rivers")
    source = f'context: {{sources: [{{id: d, type: files, path: "{docs}"}}]}}\n'
    with running_sidecar(tmp_path, config(upstream) + source) as sidecar:
        folder = Path(f"/proc/{sidecar.process.pid}/fd")
        taken = 0

        def reload() -> None:
            nonlocal taken
            sidecar.process.send_signal(signal.SIGHUP)
            taken += 1
            block_until(lambda: sidecar.log.read_text().count("config taken") == taken)

        reload()
        before = len(list(folder.iterdir()))
        for _ in range(15):
            reload()

        # What the last one replaced is closed behind the word.
        block_until(lambda: len(list(folder.iterdir())) <= before + 1)
