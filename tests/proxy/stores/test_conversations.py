"""What every place of conversations promises, for a file and for a server."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from deuz_proxy.stores.conversations import (
    MOST_TEXT_BYTES,
    Ask,
    Conversations,
    Found,
    Save,
)
from deuz_proxy.stores.redis_conversations import RedisConversations
from deuz_proxy.stores.redis_server import RedisServer
from deuz_proxy.stores.sqlite_conversations import SqliteConversations
from deuz_proxy.stores.sqlite_file import connect, open_file
from deuz_proxy.stores.sqlite_thread import SqliteThread
from deuz_testing.redis_process import KINDS, RedisProcess, running_redis

NEW = Save(
    name="c1",
    stamp=0,
    sealed=b"one",
    heads=(b"tools", b"system"),
    places=[b"k1", b"k2"],
    gone=[],
    session=b"s1",
    texts=[(b"tools", b"T"), (b"system", b"S")],
)
NOTHING = Ask((), None, None, 0, ())


@pytest.fixture(scope="module")
def processes() -> Iterator[Callable[[str], RedisProcess]]:
    """Start one server of each kind that is asked for."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(running_redis(kind=kind)))


@pytest.fixture(params=["sqlite", *KINDS])
async def kept(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Conversations]:
    async with AsyncExitStack() as stack:
        if request.param != "sqlite":
            running = request.getfixturevalue("processes")(request.param)
            running.flush(0)
            server = RedisServer(
                running.url, connect_seconds=10.0, ca_file=running.ca_file
            )
            stack.push_async_callback(server.close)
            yield RedisConversations(await server.open())
            return
        path = tmp_path / "ledger.db"
        writer = SqliteThread(open_file(path), "writer")
        reader = SqliteThread(connect(path), "reader")
        for thread in (writer, reader):
            stack.push_async_callback(thread.close, grace_seconds=5.0)
        yield SqliteConversations(reader, writer)


async def save(kept: Conversations, given: Save, now: float = 100.0) -> bool:
    return await kept.save(given, now=now, ttl_seconds=1_000.0)


async def find(kept: Conversations, ask: Ask, oldest: float = 0.0) -> Found | None:
    return await kept.find(ask, oldest=oldest)


async def test_it_is_found_by_the_longest_of_its_places(kept: Conversations) -> None:
    await save(kept, NEW)
    await save(kept, replace(NEW, name="c2", sealed=b"two", places=[b"k9"]))

    by_one = await find(kept, replace(NOTHING, keys=[b"k0", b"k1", b"xx"]))
    by_both = await find(kept, replace(NOTHING, keys=[b"k1", b"k9"]))

    assert by_one is not None
    assert (by_one.name, by_one.stamp, by_one.sealed) == ("c1", 1, b"one")
    assert sorted(by_one.texts) == [(b"system", b"S"), (b"tools", b"T")]
    assert by_both is not None
    assert by_both.name == "c2"


async def test_a_place_far_behind_the_newest_is_found_too(kept: Conversations) -> None:
    await save(kept, NEW)
    keys = [b"k1", *(b"%02x" % (n % 100) for n in range(2_500))]

    found = await find(kept, replace(NOTHING, keys=keys))

    assert found is not None
    assert found.name == "c1"


async def test_what_is_known_already_does_not_come_again(kept: Conversations) -> None:
    await save(kept, NEW)

    known = await find(kept, replace(NOTHING, name="c1", stamp=1))
    other = await find(kept, replace(NOTHING, name="c1", stamp=0, heads=[b"tools"]))

    assert known == Found("c1", 1, None, ())
    assert other == Found("c1", 1, b"one", ((b"system", b"S"),))


async def test_a_first_place_of_another_conversation_is_told(
    kept: Conversations,
) -> None:
    await save(kept, NEW)
    await save(kept, replace(NEW, name="c2", places=[b"k9"]))
    ask = replace(NOTHING, keys=[b"k9"])

    for first, is_known in ((b"k1", True), (b"xx", False), (None, False)):
        found = await find(kept, replace(ask, first=first))
        same = await find(kept, replace(ask, first=first, name="c2", stamp=1))

        assert found is not None
        assert same is not None
        assert (found.is_first_known, same.is_first_known) == (is_known, is_known)
        assert (found.sealed, same.sealed) == (b"one", None)


async def test_without_a_place_the_session_leads_there(kept: Conversations) -> None:
    await save(kept, NEW)

    found = await find(kept, replace(NOTHING, keys=[b"xx"], session=b"s1"))

    assert found is not None
    assert found.name == "c1"
    assert await find(kept, replace(NOTHING, keys=[b"xx"], session=b"s2")) is None


async def test_who_goes_on_from_an_older_form_may_not_save(
    kept: Conversations,
) -> None:
    assert await save(kept, NEW)

    assert not await save(kept, replace(NEW, sealed=b"late"))
    assert await save(kept, replace(NEW, stamp=1, sealed=b"next"))
    found = await find(kept, replace(NOTHING, keys=[b"k2"]))
    assert found is not None
    assert (found.stamp, found.sealed) == (2, b"next")


async def test_a_place_that_is_gone_leads_nowhere_unless_it_is_anothers(
    kept: Conversations,
) -> None:
    await save(kept, NEW)
    await save(kept, replace(NEW, name="c2", places=[b"k2"], session=None))

    await save(kept, replace(NEW, stamp=1, places=[b"k3"], gone=[b"k1", b"k2"]))

    names = [
        await find(kept, replace(NOTHING, keys=[k])) for k in (b"k1", b"k2", b"k3")
    ]
    assert [found and found.name for found in names] == [None, "c2", "c1"]


async def test_what_nobody_used_since_is_not_there(kept: Conversations) -> None:
    await save(kept, NEW, now=100.0)

    ask = replace(NOTHING, keys=[b"k1"])

    assert await find(kept, ask, oldest=99.0) is not None
    assert await find(kept, ask, oldest=100.0) is None


LARGE = b"x" * (MOST_TEXT_BYTES // 2 - 1)


def with_text(number: int) -> Save:
    """Return a conversation with one of the two texts that there is room for."""
    name, head, places = f"c{number}", b"h%d" % number, [b"k%d" % number]
    given = replace(NEW, name=name, heads=(head,), places=places)
    return replace(given, session=None, texts=[(head, LARGE)])


async def texts_of(kept: Conversations, number: int) -> list[bytes]:
    found = await find(kept, replace(NOTHING, keys=[b"k%d" % number]))
    assert found is not None
    return [head for head, _ in found.texts]


async def test_of_too_many_texts_the_one_used_longest_ago_leaves(
    kept: Conversations,
) -> None:
    await save(kept, with_text(1), now=100.0)
    await save(kept, with_text(2), now=101.0)
    # Its text is there already: it is used.
    await save(kept, replace(with_text(1), stamp=1, texts=[]), now=300.0)

    await save(kept, with_text(3), now=301.0)

    assert await texts_of(kept, 1) == [b"h1"]
    assert await texts_of(kept, 2) == []
    assert await texts_of(kept, 3) == [b"h3"]


async def test_a_text_that_is_used_outlives_its_age(kept: Conversations) -> None:
    given = replace(NEW, places=[], texts=[])
    await save(kept, NEW, now=100.0)
    await save(kept, replace(given, stamp=1), now=900.0)
    await save(kept, replace(given, stamp=2), now=1_500.0)

    found = await find(kept, replace(NOTHING, keys=[b"k1"]))

    assert found is not None
    assert sorted(found.texts) == [(b"system", b"S"), (b"tools", b"T")]
