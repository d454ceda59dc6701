"""The Redis server: whether its data is ours to read, and what is told of it."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.exceptions import ReadOnlyError, RedisError

from deuz_proxy.errors import StoreUnusable
from deuz_proxy.stores.redis_server import SCHEMA, RedisServer
from deuz_testing.redis_process import (
    KINDS,
    REDIS_TLS,
    RedisProcess,
    running_redis,
)
from deuz_testing.tls import make_certificate
from deuz_testing.waiting import WAIT_SECONDS

pytestmark = pytest.mark.needs("redis-server")
SECRET = "canary-9f3"


@pytest.fixture(scope="module", params=KINDS)
def process(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    with running_redis("--requirepass", SECRET, kind=request.param) as server:
        yield server


@pytest.fixture
def client(process: RedisProcess) -> Iterator[redis.Redis]:
    with process.client(password=SECRET) as made:
        made.flushall()
        yield made


def server_at(process: RedisProcess, password: str = SECRET) -> RedisServer:
    url = process.url.replace("//", f"//:{password}@")
    return RedisServer(url, connect_seconds=WAIT_SECONDS, ca_file=process.ca_file)


async def test_a_new_server_is_marked_with_the_schema(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()

    assert client.get("deuz:schema") == str(SCHEMA).encode()
    assert await server.run("return {KEYS[1], ARGV[1]}", [b"k"], [1]) == [b"k", b"1"]
    await server.close()
    await server.close()


@pytest.mark.parametrize("left", [str(SCHEMA + 1), "no number"])
async def test_what_a_newer_version_left_is_refused_and_not_written_to(
    process: RedisProcess, client: redis.Redis, left: str
) -> None:
    client.set("deuz:schema", left)
    server = server_at(process)

    with pytest.raises(StoreUnusable, match="its schema is") as caught:
        await server.open()

    assert SECRET not in str(caught.value)
    assert client.get("deuz:schema") == left.encode()
    await server.close()


async def test_an_older_schema_is_left_aside_under_its_own_keys(
    process: RedisProcess, client: redis.Redis
) -> None:
    client.set("deuz:schema", SCHEMA - 1)
    client.set(f"deuz:{SCHEMA - 1}:e:k", "old")

    server = await server_at(process).open()

    assert server.key(b"e", b"k") == b"deuz:%d:e:k" % SCHEMA
    assert client.get("deuz:schema") == str(SCHEMA).encode()
    assert client.get(f"deuz:{SCHEMA - 1}:e:k") == b"old"
    await server.close()


async def test_a_wrong_password_is_told_at_the_start_and_never_shown(
    process: RedisProcess, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_at(process, "wrong-canary")

    with pytest.raises(StoreUnusable, match="it refuses") as caught:
        await server.open()

    assert "canary" not in f"{caught.value!r} {caplog.text}"
    assert caught.value.__cause__ is None
    await server.close()


async def test_one_that_is_not_there_yet_is_looked_at_when_it_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_redis() as process:
        process.kill()
        server = RedisServer(
            process.url.replace("//", "//me:canary@"), connect_seconds=WAIT_SECONDS
        )
        with caplog.at_level(logging.WARNING, "deuz_proxy"):
            await server.open()
        with pytest.raises((RedisError, OSError)):
            await server.run("return 1", [], [])
        process.start()
        with redis.Redis(port=process.port) as client:
            client.execute_command(
                "ACL", "SETUSER", "me", "on", ">canary", "~*", "+@all"
            )
            client.set("deuz:schema", SCHEMA + 1)
            with pytest.raises(RedisError):
                await server.run("return 1", [], [])
            client.set("deuz:schema", SCHEMA)
            assert await server.run("return 1", [], []) == 1
        await server.close()

    assert "does not answer" in caplog.text
    assert "its schema is" in caplog.text
    assert "canary" not in caplog.text


async def test_a_script_is_known_again_after_a_restart() -> None:
    with running_redis() as process:
        server = await RedisServer(process.url, connect_seconds=WAIT_SECONDS).open()
        assert await server.run("return 7", [], []) == 7

        process.kill()
        process.start()

        assert await server.run("return 7", [], []) == 7
        await server.close()


async def test_after_a_fail_over_the_address_is_followed() -> None:
    with running_redis() as old, running_redis() as new:
        server = await RedisServer(old.url, connect_seconds=WAIT_SECONDS).open()
        with old.client() as demoted:
            demoted.replicaof("127.0.0.1", new.port)
        # As a name or a service does: who connects now is led to the other one.
        for connection in server._client.connection_pool._available_connections:
            connection.port = new.port  # type: ignore[attr-defined]  # It has one.

        write = "return redis.call('SET', KEYS[1], ARGV[1])"
        with pytest.raises(ReadOnlyError):
            await server.run(write, [b"k"], [b"v"])
        await server.run(write, [b"k"], [b"v"])
        await server.close()

        with new.client() as taken_over:
            assert taken_over.get("k") == b"v"


async def test_keys_are_found_by_how_they_start_and_no_pattern(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()
    for name in (b"a*1", b"a?1", b"ab1", b"a\\1", b"a[1"):
        client.set(name, b"x")

    found = {}
    for prefix in (b"a*", b"a?", b"a\\", b"a[", b"a"):
        _, keys = await server.scan(0, prefix)
        found[prefix] = len(keys)

    assert found == {b"a*": 1, b"a?": 1, b"a\\": 1, b"a[": 1, b"a": 5}
    assert await server.values([b"ab1", b"none"]) == [b"x", None]
    assert await server.values([]) == []
    await server.close()


@pytest.fixture(scope="module")
def behind_tls() -> Iterator[RedisProcess]:
    with running_redis(kind=REDIS_TLS) as process:
        yield process


async def told_at_the_start(server: RedisServer, log: pytest.LogCaptureFixture) -> str:
    """Return what is logged; that no script is run is checked, too."""
    with log.at_level(logging.WARNING, "deuz_proxy"):
        await server.open()
    with pytest.raises((RedisError, OSError)):
        await server.run("return 1", [], [])
    await server.close()
    return log.text


@pytest.mark.parametrize("case", ["another's certificates", "the system's", "name"])
async def test_a_certificate_that_does_not_prove_the_server_is_not_taken(
    behind_tls: RedisProcess,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    case: str,
) -> None:
    url, ca_file = behind_tls.url, behind_tls.ca_file
    if case == "name":
        # Vouched for, but as localhost.
        url = url.replace("localhost", "127.0.0.1")
    else:
        other = make_certificate(tmp_path) / "cert.pem"
        ca_file = None if case == "the system's" else other
    url = url.replace("//", "//me:canary@")

    told = await told_at_the_start(
        RedisServer(url, connect_seconds=WAIT_SECONDS, ca_file=ca_file), caplog
    )

    assert "its certificate is not vouched for, or names another server" in told
    assert "rediss://me:…@" in told
    assert "canary" not in told


async def test_what_answers_without_tls_where_tls_is_asked_for_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"-ERR what is that\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as plain:
        url = f"rediss://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
        told = await told_at_the_start(
            RedisServer(url, connect_seconds=WAIT_SECONDS), caplog
        )

    assert "does not answer (it does not speak TLS as we do)" in told


async def test_certificates_that_cannot_be_read_end_the_start(tmp_path: Path) -> None:
    empty = tmp_path / "ca.pem"
    empty.write_text("")

    with pytest.raises(StoreUnusable, match="its ca_file cannot be read"):
        RedisServer("rediss://h", connect_seconds=WAIT_SECONDS, ca_file=empty)
