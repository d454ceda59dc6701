from collections.abc import AsyncIterator

import pytest

from deuz_compiler import open_meter
from deuz_proxy.calls import Sent
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.events import UpstreamCall
from deuz_proxy.observe.watch import Watch
from deuz_proxy.stages.relay import Relay
from deuz_testing.scripted import GivenClient, Said, ScriptedReply

HEADERS = ((b"X-A", b"1"),)


class Journal(GivenClient):
    """A client and a decoder that say in which order they were used."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    async def write(self, chunk: bytes) -> None:
        self.steps.append(f"client {chunk.decode()}")
        await super().write(chunk)

    def decode(self, chunk: bytes) -> bytes:
        self.steps.append(f"meter {chunk.decode()}")
        return chunk


def sent(said: Said, client: Journal, *held: bytes) -> Sent:
    reply = ScriptedReply(said)
    return Sent(
        reply=reply,
        held=held,
        rest=reply.chunks(),
        meter=open_meter("anthropic", is_event_stream=False),
        decode=client.decode,
        is_accepted=True,
        call=UpstreamCall(0.0, 0.0, said.status, None),
    )


def relay(said: Said, client: Journal, *held: bytes) -> tuple[Relay, ScriptedReply]:
    made = sent(said, client, *held)
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

    assert way.totals("client_closed").response_bytes == 3
