"""Conversations in a server: everything expires, and their number is bounded."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis

from deuz_proxy.stores.conversations import MOST_CONVERSATIONS, Save
from deuz_proxy.stores.redis_conversations import RedisConversations
from deuz_proxy.stores.redis_server import RedisServer
from deuz_testing.redis_process import KINDS, RedisProcess, running_redis

NEW = Save("c1", 0, b"x", (b"h",), [b"k1"], [], b"s1", [(b"h", b"text")])


@pytest.fixture(scope="module", params=KINDS)
def process(request: pytest.FixtureRequest) -> Iterator[RedisProcess]:
    with running_redis(kind=request.param) as server:
        yield server


@pytest.fixture
def client(process: RedisProcess) -> Iterator[redis.Redis]:
    with process.client() as made:
        made.flushall()
        yield made


def server_at(process: RedisProcess) -> RedisServer:
    return RedisServer(process.url, connect_seconds=10.0, ca_file=process.ca_file)


async def test_everything_that_is_saved_expires(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()

    await RedisConversations(server).save(NEW, now=5.0, ttl_seconds=60.0)

    names = client.keys("deuz:1:*")
    assert isinstance(names, list)
    assert len(names) == 8
    assert all(0 < client.ttl(name) <= 60 for name in names)
    await server.close()


async def test_of_too_many_the_one_used_longest_ago_leaves(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()
    client.zadd("deuz:1:conversations", {f"d{n}": 1 for n in range(MOST_CONVERSATIONS)})
    client.hset("deuz:1:c:d0", "stamp", "1")

    await RedisConversations(server).save(NEW, now=5.0, ttl_seconds=60.0)

    assert client.zcard("deuz:1:conversations") == MOST_CONVERSATIONS
    assert not client.exists("deuz:1:c:d0")
    assert client.exists("deuz:1:c:c1")
    await server.close()


async def test_one_that_is_put_out_takes_along_what_leads_to_it(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()
    kept = RedisConversations(server)
    await kept.save(NEW, now=1.0, ttl_seconds=60.0)
    places, gone = [b"k2", b"k3"], [b"k1"]
    later = replace(NEW, stamp=1, places=places, gone=gone, session=b"s2", texts=[])
    await kept.save(later, now=2.0, ttl_seconds=60.0)
    # Another one's by now.
    client.set("deuz:1:p:k3", "c2")
    client.zadd("deuz:1:conversations", {f"d{n}": 3 for n in range(MOST_CONVERSATIONS)})

    other = Save("c3", 0, b"x", (), [b"k9"], [], None, [])
    await kept.save(other, now=5.0, ttl_seconds=60.0)

    names = client.keys("deuz:1:[ps]:*")
    assert isinstance(names, list)
    assert sorted(names) == [b"deuz:1:p:k3", b"deuz:1:p:k9"]
    await server.close()


async def test_of_a_conversation_s_sessions_the_last_few_lead_to_it(
    process: RedisProcess, client: redis.Redis
) -> None:
    server = await server_at(process).open()
    kept = RedisConversations(server)

    for stamp, number in enumerate((0, 1, 2, 0, 3, 4, 5, 0)):
        given = replace(NEW, stamp=stamp, places=[], session=b"s%d" % number)
        await kept.save(given, now=float(stamp + 1), ttl_seconds=60.0)

    names = client.keys("deuz:1:s:*")
    assert isinstance(names, list)
    assert sorted(names) == [b"deuz:1:s:s%d" % number for number in (0, 3, 4, 5)]
    await server.close()
