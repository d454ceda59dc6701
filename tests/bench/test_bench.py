"""The benchmark measures what it says: growing conversations, ratios of one run."""

import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.bench.report import summarise

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = (
    '{"model":"bench","messages":[{"role":"user","content":"@@@@@@@@@@@@@@@@ hello"}\0'
    ',{"role":"assistant","content":"@@@@@@@@@@@@@@@@ yes"}'
    ',{"role":"user","content":"@@@@@@@@@@@@@@@@ more"}\0]}'
)


class Recorder(BaseHTTPRequestHandler):
    """Keeps each body and answers it shortly."""

    protocol_version = "HTTP/1.1"
    bodies: list[bytes] = []  # noqa: RUF012  # One list for all connections of a test.
    asked: list[str] = []  # noqa: RUF012
    # Of how many requests the third one is to be answered last.
    most_ahead = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(body)
        self.asked.append(self.headers.get("X-Asked", ""))
        if len(self.bodies) == 3:
            while len(self.bodies) < self.most_ahead:
                time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    Recorder.bodies = []
    Recorder.asked = []
    Recorder.most_ahead = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("native")
    source = ROOT / "tests/bench/native"
    for name in ("load", "upstream"):
        command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror"]
        command += ["-fsanitize=address,undefined", "-fno-sanitize-recover", "-o"]
        command += [str(folder / name), str(source / f"{name}.c")]
        subprocess.run(command, check=True)
    (folder / "template").write_text(TEMPLATE)
    return folder


def run_load(native: Path, port: int, *numbers: int) -> dict[str, float]:
    """Run with CONNS, TALKS, PRIME, STEPS; at most ten seconds."""
    command = [str(native / "load"), str(port), str(native / "template")]
    command += [str(number) for number in (*numbers, 10)]
    done = subprocess.run(
        command, check=True, input="\n", capture_output=True, text=True, timeout=20
    )
    figures: dict[str, float] = json.loads(done.stdout.removeprefix("primed\n"))
    return figures


def run_module(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def read_histories() -> list[list[str]]:
    return [
        [message["content"] for message in json.loads(body)["messages"]]
        for body in Recorder.bodies
    ]


def test_a_known_conversation_grows_and_keeps_its_history(
    native: Path, port: int
) -> None:
    figures = run_load(native, port, 1, 1, 2, 3)

    histories = read_histories()
    assert figures["requests"] == 3
    assert figures["errors"] == figures["bad_status"] == 0
    assert [len(history) for history in histories] == [3, 5, 7, 9, 11]
    assert all(
        longer[: len(shorter)] == shorter
        for shorter, longer in itertools.pairwise(histories)
    )


def test_first_sight_has_no_message_in_common_with_any_other(
    native: Path, port: int
) -> None:
    run_load(native, port, 2, 2, 0, 4)

    histories = read_histories()
    messages = [message for history in histories for message in history]
    assert [len(history) for history in histories] == [3] * 10
    assert len(messages) == len(set(messages))


def test_conversations_share_connections_but_never_overtake_themselves(
    native: Path, port: int
) -> None:
    figures = run_load(native, port, 2, 6, 1, 3)

    by_talk: dict[str, list[int]] = {}
    for history in read_histories():
        by_talk.setdefault(history[0], []).append(len(history))
    assert figures["requests"] == 18
    assert list(by_talk.values()) == [[3, 5, 7, 9]] * 6


def test_ahead_of_the_measurement_each_takes_its_share(native: Path, port: int) -> None:
    # One that is answered late has its share to take still.
    Recorder.most_ahead = 6

    run_load(native, port, 2, 2, 5, 1)

    by_talk: dict[str, list[int]] = {}
    for history in read_histories():
        by_talk.setdefault(history[0], []).append(len(history))
    assert list(by_talk.values()) == [[3, 5, 7, 9, 11, 13]] * 2


def test_who_is_answered_sooner_grows_further_than_its_share(
    native: Path, port: int
) -> None:
    Recorder.most_ahead = 22

    figures = run_load(native, port, 2, 2, 1, 10)

    longest = max(len(history) for history in read_histories())
    assert (figures["requests"], figures["errors"]) == (20, 0)
    # One step ahead of the measurement, and all of both but one in it.
    assert longest == 1 + 2 * (1 + 19)


def test_lines_that_a_gateway_wants_are_sent_with_every_request(
    native: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_HEADERS", "X-Asked: yes\r\n")

    figures = run_load(native, port, 1, 1, 0, 2)

    assert figures["errors"] == 0
    assert Recorder.asked == ["yes"] * 3


def test_a_short_run_measures_the_floor_against_direct(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"

    done = run_module(
        *("tests.bench", "--short", "--only", "aio-floor"),
        *("--cells", "2k c1", "--processes", "2", "--out", str(out)),
    )

    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    floor = result["summary"]["2k c1"]["aio-floor"]
    assert result["failed"] == []
    assert floor["cpu_ms_per_request"] > 0
    assert (floor["cpu_over_floor"], floor["cpu_over_floor_error"]) == (1, 0)
    assert floor["samples"] == 2
    assert result["idle_mib"]["aio-floor"] > 10
    assert "aio-floor" in done.stdout


def test_what_a_ratio_may_be_off_by_is_told_from_its_rounds() -> None:
    floor, even, uneven = (
        [{"cpu_ms_per_request": cpu, "p50_ms": 1.0, "p99_ms": 2.0} for cpu in taken]
        for taken in ((1.0, 2.0, 4.0), (2.0, 4.0, 8.0), (1.0, 4.0, 12.0))
    )

    subjects = {"direct": even, "aio-floor": floor, "even": even, "uneven": uneven}
    told = summarise({"2k": subjects})

    # The machine was slow for both at once: that is no doubt.
    assert told["2k"]["even"]["cpu_over_floor_error"] == 0
    assert told["2k"]["uneven"]["cpu_over_floor_error"] == pytest.approx(1 / 3**0.5)


def make_result(cpu: float) -> dict[str, Any]:
    cells = ["2k c64", "100k known c64", "100k first c64", "1m known c64"]
    cells += ["1m first c64", "2k placed c64", "100k placed c64", "1m placed c64"]
    cells += ["64 streams", "burst of 4 streams"]
    figures = {"cpu_ms_per_request": cpu, "cpu_us_per_event": cpu}
    floor = {"cpu_ms_per_request": 1.0, "cpu_us_per_event": 1.0}
    by_subject = {"aio-floor": floor, "observe": figures, "compile": figures}
    return {
        "idle_mib": dict.fromkeys(by_subject, 50.0),
        "summary": dict.fromkeys(cells, by_subject),
    }


@pytest.mark.parametrize(("cpu", "code"), [(2.0, 0), (9.0, 1)])
def test_ratios_over_their_bounds_are_an_error(
    cpu: float, code: int, tmp_path: Path
) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(make_result(cpu)))

    done = run_module("tests.bench.check_ratios", str(path))

    assert done.returncode == code, done.stdout
    assert ("x floor, bound" in done.stdout) == bool(code)


def test_what_was_not_measured_is_an_error(tmp_path: Path) -> None:
    result = make_result(1.0)
    del result["summary"]["64 streams"]
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(result))

    done = run_module("tests.bench.check_ratios", str(path))

    assert done.returncode == 1
    assert "64 streams, cpu_us_per_event: not measured" in done.stdout
