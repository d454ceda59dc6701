"""What tells of requests: the sinks behind one fanout, and the admin address."""

import json
from contextlib import AsyncExitStack

import aiohttp
import pytest

from deuz_proxy.config.load import load_config
from deuz_proxy.config.model import Config, Route
from deuz_proxy.errors import ListenFailed
from deuz_proxy.telling import Telling
from deuz_testing.events import finished, started

CONFIG = load_config(None, {})


def with_route(name: str) -> Config:
    route = Route(path="/v1/messages", name=name)
    return CONFIG.model_copy(update={"routes": (route,)})


async def opened(stack: AsyncExitStack, config: Config = CONFIG) -> tuple[Telling, str]:
    telling = Telling(config, {}, stack)
    telling.open()
    address = await telling.listen(
        "127.0.0.1:0", readiness=lambda: ["asleep"], served_at=lambda: "here:1"
    )
    return telling, f"http://{address}"


async def read(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def test_one_event_shows_on_the_page_and_in_the_metrics() -> None:
    async with AsyncExitStack() as stack:
        telling, url = await opened(stack, with_route("chat"))

        telling.fanout(started())
        telling.fanout(finished())

        assert 'deuz_requests_in_flight{route="chat"} 0.0' in await read(
            f"{url}/metrics"
        )
        assert '"id":"r-1"' in await read(f"{url}/api/v1/requests")


async def test_it_answers_what_its_owner_says_of_readiness_and_place() -> None:
    async with AsyncExitStack() as stack:
        _, url = await opened(stack)

        assert json.loads(await read(f"{url}/readyz"))["reasons"] == ["asleep"]
        assert json.loads(await read(f"{url}/api/v1/config"))["listen"] == "here:1"


async def test_a_reload_brings_the_new_routes_series_and_shows_the_config() -> None:
    async with AsyncExitStack() as stack:
        telling, url = await opened(stack, with_route("one"))

        telling.reload(with_route("two"))

        assert 'deuz_requests_in_flight{route="two"}' in await read(f"{url}/metrics")
        assert '"name":"two"' in await read(f"{url}/api/v1/config")


async def test_a_taken_admin_address_is_named_as_such() -> None:
    async with AsyncExitStack() as stack:
        telling, url = await opened(stack)
        taken = url.removeprefix("http://")

        with pytest.raises(ListenFailed, match=f"^admin address {taken} .* in use"):
            await telling.listen(taken, readiness=list, served_at=str)
