"""A sidecar of several processes, as its operator, its clients and a scraper see it."""

import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)

from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.provider import provider_in_thread
from deuz_testing.raw_client import ask, post
from deuz_testing.sidecar_process import (
    Sidecar,
    running_process,
    running_sidecar,
    wait_for_addresses,
)
from deuz_testing.upstreams import raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, block_until
from deuz_testing.workers import (
    BODY,
    config,
    counted,
    read,
    told,
    workers_of,
)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    made = FakeProvider()
    with provider_in_thread(made):
        yield f"http://127.0.0.1:{made.port}"


def send(sidecar: Sidecar, connections: int, each: int) -> list[int]:
    """Send requests over so many connections at once; return the statuses."""

    def talk(_: int) -> list[int]:
        host = urlsplit(sidecar.url).netloc
        with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as one:
            statuses = []
            for _ in range(each):
                one.request("POST", "/v1/chat/completions", BODY)
                answer = one.getresponse()
                answer.read()
                statuses.append(answer.status)
            return statuses

    with ThreadPoolExecutor(connections) as pool:
        return [status for got in pool.map(talk, range(connections)) for status in got]


@pytest.mark.parametrize("workers", [2, 4])
def test_what_is_counted_is_what_was_sent(
    workers: int, tmp_path: Path, provider: str
) -> None:
    with running_sidecar(tmp_path, config(provider), workers=workers) as sidecar:
        cpu = [cpu_seconds(worker) for worker in workers_of(sidecar)]
        statuses = send(sidecar, connections=32, each=20)
        block_until(lambda: told(sidecar, "/api/v1/status")["requests"] == 640)
        status = told(sidecar, "/api/v1/status")
        busy = [
            cpu_seconds(worker) - before
            for worker, before in zip(workers_of(sidecar), cpu, strict=True)
        ]

        assert statuses == [200] * 640
        assert len(busy) == workers
        assert all(seconds > 0 for seconds in busy), "a worker had nothing to do"
        assert counted(sidecar, "deuz_requests_total") == 640
        assert counted(sidecar, "deuz_request_duration_seconds_count") == 640
        assert counted(sidecar, "deuz_prefix_requests_total") == 640
        assert counted(sidecar, "deuz_requests_in_flight") == 0
        assert counted(sidecar, "deuz_events_lost_total") == 0
        assert counted(sidecar, "deuz_workers") == workers
        assert status["in_flight"] == 0
        each = status["workers"]["each"]
        assert [worker["worker"] for worker in each] == list(range(workers))
        assert {worker["process"] for worker in each} == set(workers_of(sidecar))
        assert sum(worker["requests"] for worker in each) == 640
        assert all(worker["requests"] > 0 for worker in each)
        assert {(w["in_flight"], w["failures"], w["is_serving"]) for w in each} == {
            (0, 0, True)
        }
        listed = told(sidecar, "/api/v1/requests?limit=500")["requests"]
        assert len({request["id"] for request in listed}) == 500
        # Unix time of other processes, not readings of clocks that differ.
        assert all(abs(time.time() - request["at"]) < 60 for request in listed)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_one_worker_dies_and_the_others_go_on(tmp_path: Path, provider: str) -> None:
    with running_sidecar(tmp_path, config(provider), workers=2) as sidecar:
        before = workers_of(sidecar)

        os.kill(before[0], signal.SIGKILL)
        block_until(lambda: counted(sidecar, "deuz_worker_failures_total") == 1)
        assert set(send(sidecar, connections=8, each=5)) == {200}
        block_until(lambda: counted(sidecar, "deuz_workers") == 2)
        assert set(send(sidecar, connections=8, each=5)) == {200}

        block_until(lambda: told(sidecar, "/api/v1/status")["requests"] == 80)
        assert told(sidecar, "/readyz")["status"] == "ready"
        assert before[1] in workers_of(sidecar)
        each = told(sidecar, "/api/v1/status")["workers"]["each"]
        assert sorted(worker["failures"] for worker in each) == [0, 1]
        assert sum(worker["requests"] for worker in each) == 80
        assert "worker" in sidecar.log.read_text()


def test_a_request_that_died_with_its_worker_is_not_in_flight_for_ever(
    tmp_path: Path,
) -> None:
    with silent_upstream() as url:
        text = config(url)
        with running_sidecar(tmp_path, text, workers=2) as sidecar:
            host = urlsplit(sidecar.url).netloc
            client = http.client.HTTPConnection(host, timeout=WAIT_SECONDS)
            client.request("POST", "/v1/chat/completions", BODY)
            block_until(lambda: counted(sidecar, "deuz_requests_in_flight") == 1)

            for worker in workers_of(sidecar):
                os.kill(worker, signal.SIGKILL)
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                client.getresponse()
            client.close()
            client.close()
            block_until(lambda: counted(sidecar, "deuz_workers") == 2)
            block_until(lambda: counted(sidecar, "deuz_requests_in_flight") == 0)

            assert counted(sidecar, "deuz_events_lost_total") == 1
            assert told(sidecar, "/api/v1/status")["in_flight"] == 0


@contextlib.contextmanager
def silent_upstream() -> Iterator[str]:
    """Accept connections and never answer."""
    kept = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                kept.append(listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    for each in kept:
        each.close()


def test_a_changed_file_reaches_all_workers_and_an_invalid_one_none(
    tmp_path: Path, provider: str
) -> None:
    with running_sidecar(tmp_path, config(provider), workers=2) as sidecar:
        file = tmp_path / "deuz.yaml"
        extra = 'upstreams: {{mine: {{url: "{}"}}}}\n'

        file.write_text(extra.format("http://127.0.0.1:1"))
        block_until(lambda: "config taken" in sidecar.log.read_text())
        block_until(lambda: statuses_of(sidecar, "/@mine/x") == {502})
        file.write_text("upstreams: 7\n")
        sidecar.process.send_signal(signal.SIGHUP)
        block_until(lambda: "not taken" in sidecar.log.read_text())

        assert statuses_of(sidecar, "/@mine/x") == {502}
        assert len(workers_of(sidecar)) == 2


async def test_a_conversation_keeps_its_blocks_whichever_worker_gets_it(
    tmp_path: Path,
) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for word in ("rivers", "mountains", "lakes", "forests"):
        (docs / f"{word}.md").write_text(f"# On {word}\n\nAll about {word} is here.")
    async with raw_upstream() as upstream:
        text = config(upstream.url, mode="compile") + (
            "context: {refresh: {deadline_ms: 30000}, sources: "
            f"[{{id: docs, type: files, path: {docs}, min_score: 0}}]}}\n"
        )
        with running_sidecar(tmp_path, text, workers=2) as sidecar:
            messages: list[dict[str, str]] = []
            sent: list[list[object]] = []
            for turn in range(16):
                word = ("rivers", "mountains", "lakes", "forests")[turn % 4]
                question = f"What is there on {word}, number {turn}?"
                messages.append({"role": "user", "content": question})
                body = json.dumps({"model": "gpt-5", "messages": messages}).encode()
                # A connection of its own each time: any worker may get it.
                await ask(sidecar.url, post("/v1/chat/completions", body))
                sent.append(json.loads(upstream.last.body)["messages"])
                messages.append({"role": "assistant", "content": f"Much, {turn}."})

    assert len(sent[-1]) > len(messages) - 1, "nothing was placed"
    for before, after in itertools.pairwise(sent):
        assert after[: len(before)] == before


def statuses_of(sidecar: Sidecar, path: str) -> set[int]:
    """Return the answers over many connections: each worker has some of them."""

    def ask(_: int) -> int:
        host = urlsplit(sidecar.url).netloc
        with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as one:
            one.request("GET", path)
            return one.getresponse().status

    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(ask, range(24)))


def test_an_address_that_another_sidecar_shares_is_taken(
    tmp_path: Path, provider: str
) -> None:
    with running_sidecar(tmp_path, config(provider), workers=2) as sidecar:
        address = urlsplit(sidecar.url).netloc
        command = [sys.executable, "-m", "deuz_proxy", "run", "--workers", "2"]
        command += ["--listen", address, "--admin", "127.0.0.1:0"]

        second = subprocess.run(command, capture_output=True, check=False, text=True)

        assert second.returncode == 2
        assert second.stderr == (
            f"deuz-sidecar: address {address} cannot be listened on: address already "
            "in use; choose another with --listen H:P (port 0: any free one)\n"
        )


def test_the_pages_stream_tells_the_requests_of_all_workers(
    tmp_path: Path, provider: str
) -> None:
    with running_sidecar(tmp_path, config(provider), workers=2) as sidecar:
        url = f"{sidecar.admin}/api/v1/events"
        with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as events:
            assert set(send(sidecar, connections=16, each=2)) == {200}

            heard: set[str] = set()
            while len(heard) < 32:
                line = events.readline()
                if line.startswith(b"data: ") and b'"request":' in line:
                    heard.add(json.loads(line[6:])["request"]["id"])


def test_exemplars_lead_to_the_traces_of_the_requests(
    tmp_path: Path, provider: str
) -> None:
    with running_sidecar(tmp_path, config(provider), workers=2) as sidecar:
        send(sidecar, connections=4, each=2)
        block_until(lambda: counted(sidecar, "deuz_requests_total") == 8)
        listed = told(sidecar, "/api/v1/requests")["requests"]
        traces = {
            told(sidecar, f"/api/v1/requests/{one['id']}")["trace"]["trace_id"]
            for one in listed
        }
        text = read(f"{sidecar.admin}/metrics", "application/openmetrics-text")

    shown = {
        sample.exemplar.labels["trace_id"]
        for family in parse_openmetrics(text)  # type: ignore[no-untyped-call]  # Its own.
        for sample in family.samples
        if sample.exemplar
    }
    assert len(traces) == 8
    assert shown
    assert shown <= traces


def test_a_module_in_the_working_directory_is_not_a_workers(
    tmp_path: Path, provider: str
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not ours')")
    program = Path(sys.executable).with_name("deuz-sidecar")
    command = [str(program), "run", "--workers", "2"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    log = tmp_path / "log"
    with contextlib.chdir(tmp_path), running_process(command, log) as process:
        url, admin = wait_for_addresses(process, log)

        assert told(Sidecar(url, admin, log, process), "/readyz")["status"] == "ready"
