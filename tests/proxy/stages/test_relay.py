from collections.abc import AsyncIterator, Callable

import pytest

from deuz_compiler import ReplyMeter, open_meter
from deuz_proxy.calls import Sent
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.events import UpstreamCall
from deuz_proxy.observe.watch import Watch
from deuz_proxy.stages.relay import Relay
from deuz_testing.scripted import GivenClient, Said, ScriptedReply
from deuz_testing.streams import STREAMS, Stream

HEADERS = ((b"X-A", b"1"),)
CHAT = STREAMS["openai_chat"]


class Journal(GivenClient):
    """A client that says in which order it and a meter were used."""

    def __init__(self, leaves_at: int | None = None) -> None:
        super().__init__(leaves_at=leaves_at)
        self.steps: list[str] = []

    def write(self, chunk: bytes) -> bool:
        self.steps.append(f"client {chunk.decode('latin-1')}")
        return super().write(chunk)


class Noted:
    """A meter that says in its client's journal what it is fed."""

    def __init__(self, meter: ReplyMeter, client: Journal) -> None:
        self._meter = meter
        self._steps = client.steps
        self.close = meter.close

    @property
    def decisive(self) -> str | None:
        return self._meter.decisive

    def feed(self, chunk: bytes) -> None:
        self._steps.append(f"meter {chunk.decode('latin-1')}")
        self._meter.feed(chunk)


class Slow(Journal):
    """A client to which each chunk is too much until it is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: Callable[[], bool] = bool

    def write(self, chunk: bytes) -> bool:
        super().write(chunk)
        return True

    async def drain(self) -> None:
        assert not self.offered()
        self.steps.append("drained")


class LeavesAtTheEnd(Journal):
    """A client that has left when it is told that the answer is over."""

    def finish(self) -> None:
        raise ConnectionResetError


def meter(stream: Stream) -> ReplyMeter:
    return open_meter(stream.wire, is_event_stream=stream.is_event_stream)


def sent(
    said: Said,
    client: Journal,
    *held: bytes,
    by: ReplyMeter | None = None,
    is_whole: bool = False,
) -> Sent:
    reply = ScriptedReply(said)
    return Sent(
        reply=reply,
        held=held,
        rest=reply.chunks(),
        meter=Noted(by or open_meter("anthropic", is_event_stream=False), client),
        decode=bytes.lower,
        is_accepted=True,
        call=UpstreamCall(0.0, 0.0, said.status, None),
        is_whole=is_whole,
    )


def relay(
    said: Said,
    client: Journal,
    *held: bytes,
    by: ReplyMeter | None = None,
    is_whole: bool = False,
) -> tuple[Relay, ScriptedReply]:
    made = sent(said, client, *held, by=by, is_whole=is_whole)
    assert isinstance(made.reply, ScriptedReply)
    times = iter(range(1000))
    return Relay(made, client, Watch(lambda: float(next(times)))), made.reply


async def test_a_chunk_goes_out_before_it_is_metered_and_held_ones_only_go_out() -> (
    None
):
    client = Journal()
    way, reply = relay(Said(200, (b"b", b"c"), HEADERS), client, b"a")

    totals = await way.run()

    assert client.steps == ["client a", "client b", "meter b", "client c", "meter c"]
    assert (client.status, client.reason, client.headers) == (200, "Because", HEADERS)
    assert client.is_finished
    assert reply.is_closed
    assert (totals.outcome, totals.status, totals.response_bytes) == ("ok", 200, 3)
    assert totals.first_byte_seconds is not None


@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_is_here_is_told_like_one_that_comes(status: int) -> None:
    told = []
    for is_here in (False, True):
        client = Journal()
        said = Said(status, (b"a",), HEADERS, is_here=is_here)
        way, reply = relay(said, client)
        told.append((await way.run(), client))
        assert reply.is_closed

    assert told[0] == told[1]
    assert told[1][1].steps == ["client a", "meter a"]
    assert told[1][1].is_finished


@pytest.mark.parametrize(
    ("client", "outcome"),
    [(Journal(leaves_at=0), "client_closed"), (LeavesAtTheEnd(), "ok")],
)
async def test_a_client_that_leaves_an_answer_that_is_here_has_it_once_it_was_written(
    client: Journal, outcome: str
) -> None:
    way, reply = relay(Said(200, (b"a",), is_here=True), client)

    totals = await way.run()

    assert reply.is_closed
    assert totals.outcome == outcome


async def test_an_answer_held_whole_goes_out_at_once_and_is_not_metered_again() -> None:
    client = Journal()
    way, reply = relay(Said(200, (), HEADERS), client, b"all", is_whole=True)

    totals = await way.run()

    assert client.steps == ["client all"]
    assert client.is_finished
    assert reply.is_closed
    assert (totals.outcome, totals.response_bytes) == ("ok", 3)
    assert totals.first_byte_seconds is not None


@pytest.mark.parametrize(
    ("client", "outcome"),
    [(Journal(leaves_at=0), "client_closed"), (LeavesAtTheEnd(), "ok")],
)
async def test_a_client_that_left_before_a_whole_answer_went_out_has_none(
    client: Journal, outcome: str
) -> None:
    body = b'{"type":"message","role":"assistant","stop_reason":"end_turn"}'
    by = open_meter("anthropic", is_event_stream=False)
    by.feed(body)
    assert by.close().is_complete
    way, _ = relay(Said(200), client, body, by=by, is_whole=True)

    totals = await way.run()

    assert totals.outcome == outcome


async def test_what_comes_while_a_client_is_slow_waits_for_what_came_before() -> None:
    def offered() -> bool:
        return reply.take is not None and reply.take(b"early")

    client = Slow()
    way, reply = relay(Said(200, (b"a", b"b", b"c")), client)
    client.offered = offered

    totals = await way.run()

    # The first went out at once; the second found it slow, and the third again not.
    assert client.steps == [
        "client a",
        "meter a",
        "client b",
        "meter b",
        "drained",
        "client c",
        "meter c",
    ]
    assert totals.response_bytes == 3


@pytest.mark.parametrize("is_here", [False, True])
async def test_what_has_a_coding_is_metered_decoded(is_here: bool) -> None:
    client = Journal()
    lines = ((b"Content-Encoding", b"gzip"),)
    way, _ = relay(Said(200, (b"A",), lines, is_here=is_here), client)

    await way.run()

    assert client.steps == ["client A", "meter a"]


async def test_an_answer_without_a_body_has_no_first_byte() -> None:
    way, _ = relay(Said(204), Journal())

    totals = await way.run()

    assert (totals.outcome, totals.first_byte_seconds) == ("ok", None)


async def test_an_error_keeps_its_first_text_for_recognition_only() -> None:
    client = Journal()
    big = b"x" * 65_536
    way, _ = relay(Said(400, (b"ab", big, b"cd")), client)

    totals = await way.run()

    assert totals.outcome == "upstream_error"
    assert totals.error_body == b"ab" + big
    assert totals.response_bytes == len(big) + 4


async def test_a_cut_answer_breaks_the_clients_connection() -> None:
    client = Journal()
    way, reply = relay(Said(200, (b"a",), fault=UpstreamBroken(upstream="u")), client)

    totals = await way.run()

    assert client.is_aborted
    assert not client.is_finished
    assert reply.is_closed
    assert (totals.outcome, totals.error) == ("truncated", "upstream_broken")
    assert totals.response_bytes == 1


async def test_a_client_that_left_ends_the_answer() -> None:
    client = Journal()
    client.leaves_at = 1
    way, reply = relay(Said(200, (b"a", b"b", b"c")), client)

    totals = await way.run()

    assert reply.is_closed
    assert totals.outcome == "client_closed"
    assert client.chunks == [b"a"]


@pytest.mark.parametrize("name", STREAMS)
async def test_a_client_that_was_handed_the_final_event_has_its_answer(
    name: str,
) -> None:
    client = Journal()
    client.leaves_at = 2
    stream = STREAMS[name]
    said = Said(200, (stream.begin, stream.end, b"\n"))
    way, reply = relay(said, client, by=meter(stream))

    totals = await way.run()

    assert reply.is_closed
    assert (totals.outcome, totals.error) == ("ok", None)


@pytest.mark.parametrize("name", STREAMS)
async def test_a_client_that_leaves_at_the_final_event_has_left(name: str) -> None:
    client = Journal()
    client.leaves_at = 1
    stream = STREAMS[name]
    way, _ = relay(Said(200, (stream.begin, stream.end)), client, by=meter(stream))

    totals = await way.run()

    assert totals.outcome == "client_closed"


@pytest.mark.parametrize(
    ("leaves_at", "outcome"), [(0, "client_closed"), (1, "client_closed"), (2, "ok")]
)
async def test_a_final_event_that_is_held_counts_once_it_was_handed_over(
    leaves_at: int, outcome: str
) -> None:
    client = Journal()
    client.leaves_at = leaves_at
    held = (CHAT.begin, CHAT.end)
    by = meter(CHAT)
    for chunk in held:
        by.feed(chunk)
    way, _ = relay(Said(200, (b": more\n\n",)), client, *held, by=by)

    totals = await way.run()

    assert totals.outcome == outcome


async def test_a_final_line_is_an_end_also_without_the_empty_line_behind_it() -> None:
    client = Journal()
    client.leaves_at = 2
    said = Said(200, (CHAT.begin, CHAT.end.rstrip(b"\n"), b"\n\n"))
    way, _ = relay(said, client, by=meter(CHAT))

    totals = await way.run()

    assert totals.outcome == "ok"


@pytest.mark.parametrize(("status", "outcome"), [(200, "ok"), (400, "upstream_error")])
async def test_a_client_that_leaves_behind_the_last_byte_has_all_whatever_it_means(
    status: int, outcome: str
) -> None:
    client = LeavesAtTheEnd()
    way, reply = relay(Said(status, (b"no", b"thing known")), client)

    totals = await way.run()

    assert reply.is_closed
    assert (totals.outcome, totals.response_bytes) == (outcome, 13)


async def test_what_was_relayed_can_be_told_if_the_way_is_cut() -> None:
    client = Journal()

    class Cut(Exception):
        pass

    async def rest() -> AsyncIterator[bytes]:
        yield b"abc"
        raise Cut

    made = sent(Said(200), client)
    made = Sent(
        made.reply, (), rest(), made.meter, made.decode, made.is_accepted, made.call
    )
    way = Relay(made, client, Watch(lambda: 0.0))

    with pytest.raises(Cut):
        await way.run()

    assert way.left().outcome == "client_closed"
    assert way.left().response_bytes == 3
