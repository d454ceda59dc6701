import asyncio

from deuz_proxy.demo.provider import FakeProvider, RawReply, Reply, Text
from deuz_testing.provider import running_provider
from deuz_testing.waiting import WAIT_SECONDS

BODY = b'{"model":"fake","messages":[{"role":"user","content":"hi"}],"stream":true}'
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n"


async def exchange(provider: FakeProvider, head: bytes, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
    writer.write(head + body)
    try:
        return await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    finally:
        writer.close()


async def test_each_event_is_a_chunk_of_its_own() -> None:
    head = HEAD % (len(BODY), b"Connection: close\r\n")
    async with running_provider() as provider:
        answer = await exchange(provider, head, BODY)

    chunks = answer.split(b"\r\n\r\n", 1)[1].split(b"\r\n")[1::2]
    assert len(chunks) > 4
    assert all(
        c.startswith(b"data: ") and c.endswith(b"\n\n") for c in chunks[:-1] if c
    )
    assert answer.endswith(b"0\r\n\r\n")


async def test_a_cut_stream_has_no_last_chunk() -> None:
    reply = Reply((Text("a long enough text for several events"),), cut_after=2)
    head = HEAD % (len(BODY), b"")
    async with running_provider(FakeProvider(script=lambda _: reply)) as provider:
        answer = await exchange(provider, head, BODY)

    assert answer.count(b"data: ") == 2
    assert not answer.endswith(b"0\r\n\r\n")


async def test_a_cut_buffered_answer_has_too_few_bytes() -> None:
    body = BODY.replace(b"true", b"false")
    reply = Reply((Text("answer"),), cut_after=1)
    head = HEAD % (len(body), b"")
    async with running_provider(FakeProvider(script=lambda _: reply)) as provider:
        answer = await exchange(provider, head, body)

    told, sent = answer.split(b"\r\n\r\n", 1)
    promised = int(told.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert 0 < len(sent) < promised


async def test_raw_chunks_are_sent_one_by_one() -> None:
    reply = RawReply(200, (b"a" * 7, b"b" * 9), pause_seconds=0.001)
    head = HEAD % (len(BODY), b"Connection: close\r\n")
    async with running_provider(FakeProvider(script=lambda _: reply)) as provider:
        answer = await exchange(provider, head, BODY)

    assert answer.endswith(b"\r\n7\r\naaaaaaa\r\n9\r\nbbbbbbbbb\r\n0\r\n\r\n")


async def test_a_client_that_waits_for_leave_gets_it() -> None:
    head = HEAD % (len(BODY), b"Expect: 100-continue\r\nConnection: close\r\n")
    async with running_provider() as provider:
        reader, writer = await asyncio.open_connection("127.0.0.1", provider.port)
        writer.write(head)
        leave = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WAIT_SECONDS)
        writer.write(BODY)
        answer = await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        writer.close()

    assert leave == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.startswith(b"HTTP/1.1 200")
