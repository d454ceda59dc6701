"""A Redis server of the tests' own, on a free port: killed, frozen, back again."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

START_SECONDS = 10.0


class RedisProcess:
    """A server without persistence: what it held ends with it."""

    def __init__(self, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self._folder = tempfile.mkdtemp(prefix="deuz-redis-")
        self._options = options
        self._process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        assert program is not None
        head = [program, "--port", str(self.port), "--bind", "127.0.0.1"]
        tail = ["--dir", self._folder, "--save", "", "--loglevel", "warning"]
        self._process = subprocess.Popen(
            [*head, *tail, *self._options], stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < end, "redis-server did not start"
            time.sleep(0.02)

    def flush(self, database: int) -> None:
        """Empty one of its databases."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"SELECT %d\r\nFLUSHDB\r\n" % database)
            answer = b""
            while answer.count(b"\r\n") < 2:
                answer += connection.recv(64)

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Let it take connections and answer nothing."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def remove(self) -> None:
        """End it and remove what it left."""
        if self._process.poll() is None:
            self.thaw()
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16)[:1] in (b"+", b"-")
        except OSError:
            return False


@contextmanager
def running_redis(*options: str) -> Iterator[RedisProcess]:
    """Run a server for the life of the block."""
    server = RedisProcess(*options)
    server.start()
    try:
        yield server
    finally:
        server.remove()
