"""What the upstream gets of heads that differ in a few lines from the last one."""

import pytest

from deuz_proxy.calls import Letterhead
from deuz_proxy.edge.http1_upstreams import Http1Upstreams
from deuz_testing.upstreams import raw_upstream

ON_BOTH_LOOPS = True
LINES = (
    (b"Host", b"sidecar"),
    (b"X-Id", b"1"),
    (b"X-Same", b"1"),
    (b"X-Same", b"1"),
    (b"Connection", b"x-hop"),
    (b"X-Hop", b"1"),
    (b"X-Deuz-Scope", b"1"),
    (b"content-length", b"4"),
    (b"X-Idle", b"1"),
    (b"traceparent", b"1"),
)


@pytest.mark.parametrize("changed", [(1,), (1, 9), (2,), (3,), (5,), (6,), (8, 1), ()])
async def test_a_line_that_changed_changes_no_other_byte(
    changed: tuple[int, ...],
) -> None:
    lines = list(LINES)
    for at in changed:
        lines[at] = (lines[at][0], b"22: 1")
    changes = [(LINES[at], lines[at]) for at in changed]
    upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    first = Letterhead()
    heads = []

    async with raw_upstream() as upstream:
        for sent, over in ((LINES, first), (lines, None), (lines, (first, changes))):
            reply = await upstreams.send(
                method="POST",
                base=upstream.url,
                path="/v1/x",
                headers=sent,
                body=b"four",
                letterhead=Letterhead(*over) if isinstance(over, tuple) else over,
            )
            assert [chunk async for chunk in reply.chunks()] == [b"ok"]
            heads.append(upstream.last.head)
    await upstreams.close()

    assert heads[2] == heads[1]
    assert (heads[1] == heads[0]) is all(at in (5, 6) for at in changed)


async def test_a_head_for_another_place_is_written_anew() -> None:
    upstreams = await Http1Upstreams(connect_seconds=30, idle_seconds=30).open()
    letterhead = Letterhead()

    async with raw_upstream() as upstream:
        for path in ("/v1/x", "/v1/y"):
            letterhead = Letterhead(letterhead)
            reply = await upstreams.send(
                method="POST",
                base=upstream.url,
                path=path,
                headers=LINES,
                body=b"four",
                letterhead=letterhead,
            )
            assert [chunk async for chunk in reply.chunks()] == [b"ok"]
    await upstreams.close()

    assert upstream.last.head.startswith(b"POST /v1/y HTTP/1.1\r\n")
