"""What serves requests: its parts, a reload prepared and taken, a shared address."""

import stat
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from deuz_proxy.config.load import load_config, parse_config
from deuz_proxy.errors import ListenFailed, StoreUnusable
from deuz_proxy.observe.events import Event, FaultCaught
from deuz_proxy.serving import Serving, new_id, trace_maker
from deuz_proxy.sources.build import transcripts_of
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.line import FixedSource
from deuz_testing.raw_client import ask, raw_client, request
from deuz_testing.waiting import until

CONFIG = load_config(None, {})
NOWHERE = parse_config(
    "upstreams: {anthropic: {url: 'http://127.0.0.1:1', wire: anthropic}}",
    name="f",
    folder=Path(),
    environ={},
)
BODY = anthropic_body([user("q")])


async def test_two_share_one_address_where_both_say_so_and_not_where_one_does() -> None:
    async with AsyncExitStack() as stack:
        one, two, three = (Serving(CONFIG, {}, stack) for _ in range(3))
        for serving in (one, two, three):
            await serving.open(lambda event: None)
        address = await one.listen("127.0.0.1:0", is_shared=True)

        assert await two.listen(address, is_shared=True) == address
        with pytest.raises(ListenFailed, match="address already in use"):
            await three.listen(address)


async def test_what_was_prepared_is_in_force_only_once_it_is_taken() -> None:
    told: list[Event] = []
    source = FixedSource()
    async with AsyncExitStack() as stack:
        serving = Serving(CONFIG, {}, stack)
        await serving.open(told.append)
        serving.runtime = old = replace(serving.runtime, sources=(source,))
        new = await serving.prepare(CONFIG.model_copy(update={"on_error": "closed"}))
        assert (serving.runtime, source.is_closed) == (old, False)

        await serving.take(new)

        assert serving.runtime.config.on_error == "closed"
        assert serving.runtime.ledger is old.ledger
        await until(lambda: source.is_closed)


async def test_sources_of_before_are_closed_behind_who_began_with_them() -> None:
    source, text = FixedSource(), request("POST", "/v1/messages", BODY)
    async with AsyncExitStack() as stack:
        serving = Serving(NOWHERE, {}, stack)
        await serving.open(lambda event: None)
        serving.runtime = replace(serving.runtime, sources=(source,))
        address = await serving.listen("127.0.0.1:0")
        async with raw_client(f"http://{address}") as client:
            await client.send(text[:-5])
            await until(lambda: serving._service.in_flight == 1)

            await serving.take(await serving.prepare(NOWHERE))
            later = await ask(f"http://{address}", text)

            assert (later.status, source.is_closed) == (502, False)
            await client.send(text[-5:])
            await client.read_answer()
            await until(lambda: source.is_closed)


async def test_a_source_that_cannot_be_closed_ends_nothing_and_hides_no_other() -> None:
    class Hanging(FixedSource):
        async def close(self) -> None:
            raise TimeoutError

    told: list[Event] = []
    source = FixedSource()
    async with AsyncExitStack() as stack:
        serving = Serving(CONFIG, {}, stack)
        await serving.open(told.append)
        sources = (source, Hanging())
        serving.runtime = replace(serving.runtime, sources=sources)

        await serving.take(await serving.prepare(CONFIG))
        await until(lambda: len(told) == 1)

    assert source.is_closed
    assert told == [FaultCaught("other", "reload", "sidecar_fault")]


async def test_it_tells_whom_it_was_given() -> None:
    told: list[Event] = []
    async with AsyncExitStack() as stack:
        serving = Serving(CONFIG, {}, stack)
        await serving.open(told.append)
        address = await serving.listen("127.0.0.1:0")

        answered = await ask(f"http://{address}", request("GET", "/@nobody/x", None))

    assert answered.status == 404
    assert [type(event).__name__ for event in told] == ["FaultCaught"]


def test_ids_differ() -> None:
    assert len({new_id() for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("environ", "is_sampled"),
    [({}, True), ({"OTEL_TRACES_SAMPLER": "always_off"}, False)],
)
def test_the_usual_variables_decide_on_sampling(
    environ: dict[str, str], is_sampled: bool
) -> None:
    assert trace_maker(environ)(None).is_sampled == is_sampled


async def test_what_was_said_is_kept_over_a_reload_in_a_file_of_the_owner_alone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "past.db"
    text = f"context: {{sources: [{{type: transcript, url: 'sqlite:///{file}'}}]}}"
    config = parse_config(text, name="f", folder=tmp_path, environ={})
    async with AsyncExitStack() as stack:
        serving = Serving(config, {}, stack)
        await serving.open(lambda event: None)
        before = serving.runtime
        await serving.take(await serving.prepare(config))

        (after,) = serving.runtime.archives
        assert (after,) != before.archives
        assert transcripts_of(serving.runtime.sources) == (after,)

    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_store_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "past.db").write_bytes(b"SQLite format 3\0 and nothing else")
    text = "context: {sources: [{type: transcript, url: 'sqlite:///past.db'}]}"
    config = parse_config(text, name="f", folder=tmp_path, environ={})
    async with AsyncExitStack() as stack:
        with pytest.raises(StoreUnusable):
            await Serving(config, {}, stack).open(lambda event: None)
