"""An answer on its way: read to its end or given up, and its connection."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_proxy.errors import UpstreamBroken
from deuz_testing.upstreams import Got, answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True


@pytest_asyncio.fixture
async def upstreams() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    yield opened
    await opened.close()


async def ask(upstreams: Http1Upstreams, base: str) -> Http1Reply:
    return await upstreams.send(
        method="GET", base=base, path="/v1/x", headers=(), body=None
    )


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Length: 9\r\n\r\nhalf",
        b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
)
async def test_a_body_that_ends_early_is_broken_behind_what_came(
    upstreams: Http1Upstreams, said: bytes
) -> None:
    text = b"HTTP/1.1 200 OK\r\n" + said
    got: list[bytes] = []
    async with raw_upstream(answer_with(text, closes=True)) as upstream:
        reply = await ask(upstreams, upstream.url)
        with pytest.raises(UpstreamBroken):
            await keep(reply, got)
        reply.close()

    assert b"".join(got) == b"half"


async def keep(reply: Http1Reply, got: list[bytes]) -> None:
    async for chunk in reply.chunks():
        got.append(chunk)  # noqa: PERF401  # What came before a fault is wanted too.


async def test_closing_an_unread_answer_ends_its_connection(
    upstreams: Http1Upstreams,
) -> None:
    async def endless(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await got.until_gone()

    async with raw_upstream(endless) as upstream:
        reply = await ask(upstreams, upstream.url)
        reply.close()

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)


async def test_an_answer_that_was_closed_whole_gives_its_connection_back(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        reply = await ask(upstreams, upstream.url)
        reply.close()
        reply.close()
        await ask(upstreams, upstream.url)

        assert len({id(got.writer) for got in upstream.requests}) == 1


async def test_a_body_that_is_here_is_taken_at_once_and_only_once(
    upstreams: Http1Upstreams,
) -> None:
    text = (
        b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Encoding: gzip, br\r\n"
        b"Content-Length: 4\r\n\r\nbody"
    )
    async with raw_upstream(answer_with(text)) as upstream:
        replies = [await ask(upstreams, upstream.url)]
        bodies = [replies[0].body_here(), replies[0].body_here()]
        # Its connection is free again, and what it says is known by now.
        replies.append(await ask(upstreams, upstream.url))
        bodies.append(replies[1].body_here())

    assert bodies == [b"body", None, b"body"]
    assert [(reply.kind, reply.codings) for reply in replies] == [
        (b"a/b", (b"gzip", b"br"))
    ] * 2
    assert len({got.writer for got in upstream.requests}) == 1


async def test_offered_chunks_are_taken_as_they_come_until_one_fails(
    upstreams: Http1Upstreams,
) -> None:
    async def talk(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await until(is_offered.is_set)
        await got.say(b"3\r\none\r\n")
        await until(lambda: taken == [b"one"])
        # The end comes with it: what was not handed on is no whole answer.
        await got.say(b"3\r\ntwo\r\n0\r\n\r\n")
        await got.until_gone()

    def take(chunk: bytes) -> bool:
        taken.append(chunk)
        if chunk == b"two":
            raise BrokenPipeError
        return True

    is_offered = asyncio.Event()
    taken: list[bytes] = []
    async with raw_upstream(talk) as upstream:
        reply = await ask(upstreams, upstream.url)
        reply.offer(take)
        is_offered.set()
        with pytest.raises(BrokenPipeError):
            await keep(reply, taken)
        reply.close()

        await asyncio.wait_for(upstream.last.gone.wait(), WAIT_SECONDS)
    assert taken == [b"one", b"two"]
