"""What the upstream gets over our own connections, and which of them are used again."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from deuz_proxy.calls import Letterhead
from deuz_proxy.edge import http1_upstreams
from deuz_proxy.edge.http1_reply import Http1Reply
from deuz_proxy.edge.http1_upstreams import Http1Upstreams, Origin
from deuz_proxy.edge.proxies import NO_PROXIES
from deuz_proxy.errors import UpstreamBroken, UpstreamUnreachable
from deuz_testing.upstreams import (
    Got,
    RawUpstream,
    answer_ok,
    answer_with,
    raw_upstream,
)
from deuz_testing.waiting import WAIT_SECONDS, until

ON_BOTH_LOOPS = True


@pytest_asyncio.fixture
async def upstreams() -> AsyncIterator[Http1Upstreams]:
    opened = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    yield opened
    await opened.close()


async def ask(
    upstreams: Http1Upstreams, upstream: RawUpstream, body: bytes | None = None
) -> Http1Reply:
    method = "GET" if body is None else "POST"
    return await upstreams.send(
        method=method, base=upstream.url, path="/v1/x", headers=(), body=body
    )


async def read(reply: Http1Reply) -> bytes:
    return b"".join([chunk async for chunk in reply.chunks()])


def writers(upstream: RawUpstream) -> int:
    """Return over how many connections the upstream was asked."""
    return len({id(got.writer) for got in upstream.requests})


# Lines.

CLIENT_LINES = [
    (b"Accept", b"a"),
    (b"hOST", b"sidecar"),
    (b"X-Same", b"1"),
    (b"connection", b"x-hop"),
    (b"X-Hop", b"2"),
    (b"content-LENGTH", b"3"),
    (b"Expect", b"100-continue"),
    (b"X-Deuz-Mode", b"off"),
    (b"X-Same", b"1"),
]


@pytest.mark.parametrize(
    ("base", "authority", "prefix"),
    [
        ("http://a", b"a", b""),
        ("http://a:80/x/", b"a", b"/x"),
        ("https://a:443", b"a", b""),
        ("https://a:80", b"a:80", b""),
        ("http://[::1]:9/v%2Fx/\u00e9", b"[::1]:9", b"/v%2Fx/%C3%A9"),
        ("http://b\u00fccher.test", b"xn--bcher-kva.test", b""),
    ],
)
def test_an_upstreams_name_is_what_a_client_would_call_it(
    base: str, authority: bytes, prefix: bytes
) -> None:
    origin = Origin(base, NO_PROXIES)

    assert (origin.authority, origin.prefix) == (authority, prefix)


async def test_a_request_goes_out_as_these_bytes(upstreams: Http1Upstreams) -> None:
    async with raw_upstream() as upstream:
        await upstreams.send(
            method="MADE-UP",
            base=upstream.url,
            path="/v1//x?",
            headers=CLIENT_LINES,
            body=b"four",
        )
        host = upstream.url.removeprefix("http://").encode()

        assert upstream.last.head == (
            b"MADE-UP /v1//x? HTTP/1.1\r\nAccept: a\r\nhOST: %b\r\nX-Same: 1\r\n"
            b"content-LENGTH: 4\r\nX-Same: 1\r\n\r\n" % host
        )
        assert upstream.last.body == b"four"


async def test_a_letterhead_changes_no_byte_of_any_request_under_it(
    upstreams: Http1Upstreams,
) -> None:
    async def stream() -> AsyncIterator[bytes]:
        yield b"a st"
        yield b"ream"

    letterhead, lines = Letterhead(), CLIENT_LINES
    streamed = [*lines[:5], (b"content-LENGTH", b"8"), *lines[6:]]
    async with raw_upstream() as upstream, raw_upstream() as another:
        for at, path, body in (
            (upstream, "/v1/x", b"four"),
            (upstream, "/v1/x", b"more than four"),
            (upstream, "/v1/y", b"four"),
            (another, "/v1/y", b""),
            (another, "/v1/y", None),
        ):
            heads = []
            for shared in (letterhead, None):
                reply = await upstreams.send(
                    method="PUT",
                    base=at.url,
                    path=path,
                    headers=streamed if body is None else lines,
                    body=stream() if body is None else body,
                    letterhead=shared,
                )
                await read(reply)
                heads.append(at.last.head)

            assert heads[0] == heads[1]
        assert b"content-LENGTH: 8\r\n" in another.last.head
        assert another.last.body == b"a stream"


# Reuse.


async def test_a_connection_serves_one_request_after_another(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        for _ in range(5):
            assert await read(await ask(upstreams, upstream, b"x" * 20_000)) == b"ok"

        assert len(upstream.requests) == 5
        assert writers(upstream) == 1


async def test_the_newest_idle_connection_is_taken_first(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        first, second = [await ask(upstreams, upstream) for _ in range(2)]
        await read(first)
        await read(second)
        await read(await ask(upstreams, upstream))

        assert upstream.last.writer is upstream.requests[1].writer


SAID = {
    "asks to close": b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
    b"Content-Length: 2\r\n\r\nok",
    "is old": b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "is behind": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n",
}


@pytest.mark.parametrize("said", SAID)
async def test_a_connection_that_is_not_to_be_kept_is_not(
    upstreams: Http1Upstreams, said: str
) -> None:
    async with raw_upstream(answer_with(SAID[said])) as upstream:
        for _ in range(2):
            assert await read(await ask(upstreams, upstream)) == b"ok"

        assert writers(upstream) == 2


async def test_a_connection_closed_while_idle_is_not_used_even_in_the_same_turn(
    upstreams: Http1Upstreams,
) -> None:
    async def answer(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if len(upstream.requests) == 1:
            got.writer.close()

    async with raw_upstream(answer) as upstream:
        reply = await ask(upstreams, upstream)
        # The end is in the kernel before the loop has had a turn to read it.
        await read(reply)
        assert await read(await ask(upstreams, upstream)) == b"ok"

        assert writers(upstream) == 2
        assert len(upstream.requests) == 2


async def test_a_connection_on_which_the_upstream_spoke_unasked_is_ended(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        await read(await ask(upstreams, upstream))
        first = upstream.last
        await first.say(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n")
        await until(first.writer.is_closing)

        assert (await ask(upstreams, upstream)).status == 200


async def test_idle_connections_are_ended_in_time(
    upstreams: Http1Upstreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_upstreams, "_PLAIN_IDLE_SECONDS", 0.0)
    async with raw_upstream() as upstream:
        await read(await ask(upstreams, upstream))

        await until(upstream.last.writer.is_closing)


@pytest.mark.parametrize("granted", ["timeout=0", "max=9, Timeout = 0", 'timeout="0"'])
async def test_a_connection_is_not_kept_for_longer_than_the_upstream_grants(
    upstreams: Http1Upstreams, granted: str
) -> None:
    said = b"HTTP/1.1 200 OK\r\nKeep-Alive: %b\r\nContent-Length: 0\r\n\r\n"
    async with raw_upstream(answer_with(said % granted.encode())) as upstream:
        await read(await ask(upstreams, upstream))
        # It is not used from now on, though nobody has ended it yet.
        await read(await ask(upstreams, upstream))

        assert writers(upstream) == 2


@pytest.mark.parametrize("granted", ["timeout=9", "max=9", "timeout=x", ""])
async def test_a_connection_is_kept_for_as_long_as_the_upstream_grants(
    upstreams: Http1Upstreams, granted: str
) -> None:
    said = b"HTTP/1.1 200 OK\r\nKeep-Alive: %b\r\nContent-Length: 0\r\n\r\n"
    async with raw_upstream(answer_with(said % granted.encode())) as upstream:
        for _ in range(2):
            await read(await ask(upstreams, upstream))

        assert writers(upstream) == 1


async def test_a_connection_that_takes_no_byte_is_left_for_another(
    upstreams: Http1Upstreams,
) -> None:
    async with raw_upstream() as upstream:
        replies = [await ask(upstreams, upstream) for _ in range(3)]
        for reply in replies:
            await read(reply)
        # What the kernel tells too late for a look shows when it is to take a byte.
        for connection in upstreams._connections:
            sock = connection.transport.get_extra_info("socket")
            with socket.socket(fileno=os.dup(sock.fileno())) as same:
                same.shutdown(socket.SHUT_WR)

        assert await read(await ask(upstreams, upstream, b"one")) == b"ok"
        assert writers(upstream) == 4
        assert upstream.last.body == b"one"


async def test_what_is_left_of_an_early_answered_request_is_not_overtaken(
    upstreams: Http1Upstreams,
) -> None:
    async def answer(got: Got) -> None:
        if len(upstream.requests) == 1:
            await got.say(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
            await got.until_gone()
        else:
            await answer_ok(got)

    body = b"x" * 60_000_000
    async with raw_upstream(answer) as upstream:
        reply = await ask(upstreams, upstream, body)
        assert reply.status == 413
        await read(reply)

        assert await read(await ask(upstreams, upstream, b"two")) == b"ok"
        assert writers(upstream) == 2


async def test_old_and_surplus_connections_are_not_kept(
    upstreams: Http1Upstreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with raw_upstream() as upstream:
        monkeypatch.setattr(http1_upstreams, "_MOST_IDLE", 0)
        await read(await ask(upstreams, upstream))
        await until(upstream.last.writer.is_closing)
        monkeypatch.setattr(http1_upstreams, "_MOST_IDLE", 9)
        monkeypatch.setattr(http1_upstreams, "_OLD_SECONDS", -1.0)
        await read(await ask(upstreams, upstream))
        await until(upstream.last.writer.is_closing)

        assert writers(upstream) == 2


async def test_a_thousand_bases_are_not_remembered_for_ever(
    upstreams: Http1Upstreams,
) -> None:
    for number in range(1_500):
        upstreams._origin(f"http://127.0.0.1:{number + 1}")

    assert len(upstreams._origins) <= 1024


# Ends.


async def test_a_request_that_is_given_up_ends_its_connection(
    upstreams: Http1Upstreams,
) -> None:
    async def silent(got: Got) -> None:
        await got.until_gone()

    async with raw_upstream(silent) as upstream:
        asking = asyncio.ensure_future(ask(upstreams, upstream, b"x"))
        got = await upstream.until_asked()
        asking.cancel()

        await asyncio.wait_for(got.gone.wait(), WAIT_SECONDS)
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        await until(lambda: not upstreams._connections)


async def test_an_upload_that_is_given_up_never_looks_whole(
    upstreams: Http1Upstreams,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def listen(got: Got) -> None:
        await got.read_body()

    started, ended = asyncio.Event(), asyncio.Event()
    async with raw_upstream(listen) as upstream:
        asking = asyncio.ensure_future(
            upstreams.send(
                method="POST", base=upstream.url, path="/", headers=(), body=pieces()
            )
        )
        await started.wait()
        asking.cancel()
        await asyncio.wait_for(ended.wait(), WAIT_SECONDS)
        await until(lambda: not upstreams._connections)

        assert not any(got.is_whole for got in upstream.requests)


async def test_a_body_shorter_than_stated_is_a_broken_request(
    upstreams: Http1Upstreams,
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"some"

    async with raw_upstream() as upstream:
        with pytest.raises(Exception, match="not valid HTTP"):
            await upstreams.send(
                method="POST",
                base=upstream.url,
                path="/",
                headers=[(b"Content-Length", b"9")],
                body=pieces(),
            )


async def test_a_slow_reader_upstream_slows_the_upload_and_nothing_piles_up(
    upstreams: Http1Upstreams,
) -> None:
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(200):
            taken += 1
            yield b"x" * 65_536

    async def answer(got: Got) -> None:
        await asyncio.wait_for(full.wait(), WAIT_SECONDS)
        await got.read_body()
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    full = asyncio.Event()
    async with raw_upstream(answer) as upstream:
        asking = asyncio.ensure_future(
            upstreams.send(
                method="POST", base=upstream.url, path="/", headers=(), body=pieces()
            )
        )
        await upstream.until_asked()
        before = -1
        while before < taken:
            before = taken
            await asyncio.sleep(0.05)
        stuck_at = taken
        full.set()
        reply = await asking

        assert stuck_at < 150
        assert reply.status == 200
        assert len(upstream.last.body) == 13_107_200


async def test_after_close_every_connection_is_gone_and_nothing_is_sent() -> None:
    upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    async with raw_upstream() as upstream:
        await read(await ask(upstreams, upstream))
        await upstreams.close()
        await upstreams.close()

        await until(upstream.last.writer.is_closing)
        with pytest.raises(UpstreamUnreachable):
            await ask(upstreams, upstream)


async def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    async def slow(got: Got) -> None:
        await got.say(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(4):
            await got.say(b"x")
            await asyncio.sleep(0.5)
        await got.until_gone()

    upstreams = await Http1Upstreams(connect_seconds=2, idle_seconds=1.5).open()
    got: list[bytes] = []
    async with raw_upstream(slow) as upstream:
        reply = await ask(upstreams, upstream)
        with pytest.raises(UpstreamBroken, match=r"silent for 1\.5 sec"):  # noqa: PT012
            async for chunk in reply.chunks():
                got.append(chunk)  # noqa: PERF401  # It is cut short.
        reply.close()
    await upstreams.close()

    assert b"".join(got) == b"xxxx"
