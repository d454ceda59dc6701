"""Replicas and restarts as an application sees them: nothing.

A conversation that alternates between two sidecars, or whose sidecar is killed in the
middle, has the same bytes upstream as one that stays with one sidecar.
"""

import json
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deuz_testing.redis_process import (
    KINDS,
    REDIS_TLS,
    RedisProcess,
    running_redis,
)
from deuz_testing.sidecar_process import Sidecar, running_sidecar
from deuz_testing.tls import make_certificate
from deuz_testing.waiting import block_until

pytestmark = pytest.mark.e2e

CONFIG = """\
upstreams: {{anthropic: {{url: "{upstream}", wire: anthropic}}}}
routes: [{{path: /v1/messages, upstream: anthropic, mode: compile}}]
context:
  refresh: {{min_steps: 1, deadline_ms: 30000}}
  sources:
    - {{id: docs, kind: rag, type: files, path: "{docs}"}}
ledger: {{url: "{ledger}", deadline_ms: {deadline}, ca_file: {ca_file}}}
"""
TURNS = 8
BLOCK = b"</deuz_context>"
SECRET = "canary-redis-password"


class Upstream:
    """Accepts every request, answers in one word, and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                owner.bodies.append(self.rfile.read(length))
                usage = {"input_tokens": 5, "output_tokens": 1}
                answer = {
                    "id": "m",
                    "type": "message",
                    "role": "assistant",
                    "model": "m",
                    "content": [{"type": "text", "text": "fine"}],
                    "stop_reason": "end_turn",
                    "usage": usage
                    | {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
                }
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self) -> list[bytes]:
        """Return the bodies since the last time."""
        taken, self.bodies = self.bodies, []
        return taken


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("rivers", "hills", "roads", "bridges"):
        (folder / f"{name}.md").write_text(f"{name.title()} {name} {name}.")
    return folder


@pytest.fixture(scope="module")
def server() -> Iterator[RedisProcess]:
    with running_redis("--requirepass", SECRET) as process:
        yield process


@pytest.fixture(
    params=["sqlite", pytest.param("redis", marks=pytest.mark.needs("redis-server"))]
)
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/ledger.db"
    process: RedisProcess = request.getfixturevalue("server")
    return process.url.replace("//", f"//:{SECRET}@")


class Fleet:
    """Starts sidecars, each in a folder of its own, and speaks to them."""

    def __init__(self, folder: Path, upstream: Upstream, docs: Path) -> None:
        self.folder, self.upstream, self.docs = folder, upstream, docs
        self.stack = ExitStack()
        self.count = 0

    def start(
        self, ledger: str, *, deadline: int = 5_000, ca_file: Path | None = None
    ) -> Sidecar:
        self.count += 1
        folder = self.folder / f"sidecar-{self.count}"
        folder.mkdir()
        config = CONFIG.format(
            upstream=self.upstream.url,
            docs=self.docs,
            ledger=ledger,
            deadline=deadline,
            ca_file="null" if ca_file is None else f'"{ca_file}"',
        )
        return self.stack.enter_context(running_sidecar(folder, config))

    def ask(self, sidecar: Sidecar, turn: int, *, key: str = "k") -> None:
        """Send the conversation up to a turn; its history is the client's own."""
        topics = ("rivers", "hills", "roads", "bridges")
        messages: list[dict[str, str]] = []
        for number in range(turn + 1):
            text = f"{topics[number % 4]} {number}"
            messages.append({"role": "user", "content": text})
            if number < turn:
                messages.append({"role": "assistant", "content": "fine"})
        body = {"model": "m", "max_tokens": 9, "messages": messages}
        request = urllib.request.Request(
            f"{sidecar.url}/v1/messages",
            data=json.dumps(body).encode(),
            headers={"x-api-key": key, "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["content"][0]["text"] == "fine"

    def hand_over(self, sidecar: Sidecar, turn: int, *, key: str = "k") -> None:
        """Speak, and wait until what was seen is where others find it.

        It is saved off the request's way: the client has its answer a little earlier.
        """
        before = saves(sidecar)
        self.ask(sidecar, turn, key=key)
        block_until(lambda: saves(sidecar) > before)


def saves(sidecar: Sidecar) -> float:
    """Return how often the sidecar saved a conversation."""
    with urllib.request.urlopen(f"{sidecar.admin}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return sum(
        sample.value
        for family in families
        for sample in family.samples
        if sample.name == "deuz_ledger_operations_total"
        and (sample.labels["op"], sample.labels["status"]) == ("save", "ok")
    )


@pytest.fixture
def fleet(tmp_path: Path, upstream: Upstream, docs: Path) -> Iterator[Fleet]:
    made = Fleet(tmp_path, upstream, docs)
    with made.stack:
        yield made


def admin(sidecar: Sidecar, path: str) -> Any:
    with urllib.request.urlopen(f"{sidecar.admin}/api/v1/{path}", timeout=30) as answer:
        return json.load(answer)


def verdicts(sidecar: Sidecar) -> list[tuple[str, str | None]]:
    """Return verdict and cause of its requests, the oldest first."""
    requests = reversed(admin(sidecar, "requests")["requests"])
    return [(r["verdict"]["verdict"], r["verdict"]["cause"]) for r in requests]


def bodies_of_one(fleet: Fleet) -> list[bytes]:
    """Return what goes upstream where one sidecar, without a store, serves it all."""
    alone = fleet.start("memory://")
    for turn in range(TURNS):
        fleet.ask(alone, turn, key="alone")
    bodies = fleet.upstream.take()
    assert bodies[-1].count(BLOCK) >= 3
    return bodies


def test_two_that_take_turns_send_what_one_would_and_judge_alike(
    fleet: Fleet, ledger: str
) -> None:
    wanted = bodies_of_one(fleet)
    pair = [fleet.start(ledger) for _ in range(2)]

    for turn in range(TURNS):
        fleet.hand_over(pair[turn % 2], turn)

    assert fleet.upstream.take() == wanted
    told = [verdicts(sidecar) for sidecar in pair]
    assert [one for two in zip(*told, strict=True) for one in two] == [
        ("first", None),
        *[("extended", None)] * (TURNS - 1),
    ]


def test_a_restart_in_the_middle_changes_nothing(fleet: Fleet, ledger: str) -> None:
    wanted = bodies_of_one(fleet)
    before = fleet.start(ledger)
    for turn in range(4):
        fleet.hand_over(before, turn)
    before.process.kill()
    before.process.wait()

    after = fleet.start(ledger)
    for turn in range(4, TURNS):
        fleet.ask(after, turn)

    assert fleet.upstream.take() == wanted
    assert verdicts(after) == [("extended", None)] * 4


def test_nothing_crosses_from_one_credential_to_another(
    fleet: Fleet, ledger: str
) -> None:
    pair = [fleet.start(ledger) for _ in range(2)]
    fleet.hand_over(pair[0], 0, key="one")
    fleet.hand_over(pair[0], 1, key="one")

    fleet.ask(pair[1], 1, key="two")

    assert verdicts(pair[1]) == [("first", None)]
    # Seen for the first time with two questions: only the newer one gets a block.
    assert fleet.upstream.take()[-1].count(BLOCK) == 1


@pytest.mark.needs("redis-server")
def test_a_server_that_is_killed_costs_blocks_and_no_request(fleet: Fleet) -> None:
    with running_redis() as process:
        sidecar = fleet.start(process.url)
        for turn in range(3):
            fleet.ask(sidecar, turn)
        assert fleet.upstream.take()[-1].count(BLOCK) >= 2

        process.kill()
        fleet.ask(sidecar, 3)
        (without,) = fleet.upstream.take()
        process.start()
        for turn in range(4, 7):
            fleet.ask(sidecar, turn)

        assert BLOCK not in without
        told = verdicts(sidecar)
        assert told[:4] == [
            ("first", None),
            ("extended", None),
            ("extended", None),
            ("broken", "ledger_lost"),
        ]
        assert told[-1] == ("extended", None)
        assert admin(sidecar, "status")["ledger"]["is_available"]


def test_a_server_that_takes_connections_and_says_nothing_hangs_nobody(
    fleet: Fleet,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        url = f"redis://127.0.0.1:{hole.getsockname()[1]}"
        sidecar = fleet.start(url, deadline=100)

        for turn in range(TURNS):
            fleet.ask(sidecar, turn)

        assert len(fleet.upstream.take()) == TURNS
        assert not admin(sidecar, "status")["ledger"]["is_available"]
        assert "does not answer" in sidecar.log.read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_two_go_on_with_each_others_conversations_on_every_kind_of_server(
    fleet: Fleet, kind: str
) -> None:
    with running_redis(kind=kind) as process:
        pair = [fleet.start(process.url, ca_file=process.ca_file) for _ in range(2)]

        for turn in range(TURNS):
            fleet.hand_over(pair[turn % 2], turn)

        assert fleet.upstream.take()[-1].count(BLOCK) >= 2
        told = [each for sidecar in pair for each in verdicts(sidecar)]
        assert sorted(told) == [("extended", None)] * (TURNS - 1) + [("first", None)]


@pytest.mark.needs("redis-server")
def test_a_server_that_cannot_prove_itself_costs_blocks_and_no_request(
    fleet: Fleet, tmp_path: Path
) -> None:
    other = make_certificate(tmp_path) / "cert.pem"
    with running_redis(kind=REDIS_TLS) as process:
        sidecar = fleet.start(process.url, ca_file=other)

        for turn in range(TURNS):
            fleet.ask(sidecar, turn)

        with process.client() as client:
            assert client.dbsize() == 0
    assert len(fleet.upstream.take()) == TURNS
    assert not admin(sidecar, "status")["ledger"]["is_available"]
    assert "its certificate is not vouched for" in sidecar.log.read_text()


@pytest.mark.needs("redis-server")
def test_the_servers_password_is_shown_nowhere(
    fleet: Fleet, server: RedisProcess
) -> None:
    wrong = server.url.replace("//", "//:wrong-canary@")
    with pytest.raises(RuntimeError, match="cannot be used") as caught:
        fleet.start(wrong)
    good = fleet.start(server.url.replace("//", f"//:{SECRET}@"))
    fleet.ask(good, 0)

    shown = json.dumps(admin(good, "config"))
    with urllib.request.urlopen(f"{good.admin}/metrics", timeout=30) as answer:
        shown += answer.read().decode()
    shown += (
        json.dumps(admin(good, "status")) + good.log.read_text() + str(caught.value)
    )

    assert (
        "redis://:…@127.0.0.1"
        in json.loads(json.dumps(admin(good, "config")))["ledger"]["url"]
    )
    assert "canary" not in shown


def test_a_ledger_that_cannot_be_used_ends_the_start_with_a_word(
    fleet: Fleet, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no database, but long enough for one " * 40)

    with pytest.raises(RuntimeError) as caught:
        fleet.start(f"sqlite:///{tmp_path}/notes.txt")

    assert "ledger.url: holds something else already" in str(caught.value)
    assert "Traceback" not in str(caught.value)
