"""A channel between keeper and worker: whole lines, messages apart from events."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from deuz_proxy.config.load import parse_config
from deuz_proxy.edge.worker_channel import (
    Begin,
    Channel,
    Drain,
    Listening,
    Message,
    Prepare,
    Refused,
    Take,
    pack_config,
    unpack_config,
)
from deuz_testing.waiting import until

MESSAGES: list[Message] = [
    Begin(b"\n\x00config", "127.0.0.1:1", "/folder"),
    Prepare(b"x" * 300_000),
    Take(),
    Drain(),
    Listening(),
    Refused("no\nway"),
]


class End:
    """One end, with all that it heard."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.lines: list[bytes] = []
        self.losses = 0
        self.channel = Channel(self.messages.append, self._lose, self.lines.append)

    def _lose(self) -> None:
        self.losses += 1


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[tuple[End, End]]:
    loop = asyncio.get_running_loop()
    pair, made = socket.socketpair(), (End(), End())
    for sock, end in zip(pair, made, strict=True):
        await loop.create_unix_connection(
            lambda channel=end.channel: channel,  # type: ignore[misc]  # A default.
            sock=sock,
        )
    yield made
    for end in made:
        end.channel.transport.close()
    await until(lambda: all(end.losses for end in made))


async def test_messages_arrive_as_they_were_sent_and_events_apart(
    ends: tuple[End, End],
) -> None:
    one, other = ends
    for message in MESSAGES:
        one.channel.send(message)
        one.channel.transport.write(b"s{}\n")
    await until(lambda: len(other.lines) == len(MESSAGES))

    assert other.messages == MESSAGES
    assert set(other.lines) == {b"s{}"}


async def test_a_line_that_never_ended_is_not_handed_over(
    ends: tuple[End, End],
) -> None:
    one, other = ends
    one.channel.transport.write(b"s{}\nf{")

    one.channel.transport.close()
    await until(lambda: bool(other.losses))

    assert other.lines == [b"s{}"]


async def test_to_one_who_is_gone_nothing_is_sent(ends: tuple[End, End]) -> None:
    one, other = ends
    other.channel.transport.close()
    await until(lambda: bool(one.losses))

    for _ in range(10):
        one.channel.send(Drain())

    assert (one.losses, other.messages) == (1, [])


def test_a_config_arrives_whole_with_its_secrets() -> None:
    text = "admin: {token: secret}\nroutes: [{path: /v1/messages, mode: shadow}]\n"
    config = parse_config(text, name="x", folder=Path(), environ={})

    got = unpack_config(pack_config(config))

    assert got == config
    assert got.admin.token is not None
    assert got.admin.token.get_secret_value() == "secret"
