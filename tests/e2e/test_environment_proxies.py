"""Proxies of the environment: used by rule, never to loopback, or switched off."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deuz_proxy.app import Settings, running_app
from deuz_testing.forward_proxy import forward_proxy
from deuz_testing.raw_client import ask, request
from deuz_testing.upstreams import raw_upstream

pytestmark = pytest.mark.e2e

DEAD = "http://127.0.0.1:1"
GET = request("GET", "/@it/v1//models?a=%2F", None, b"X-A: 1")


@asynccontextmanager
async def sidecar(
    folder: Path, url: str, environ: Mapping[str, str], **more: object
) -> AsyncIterator[str]:
    path = folder / "deuz.yaml"
    addresses = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}}
    path.write_text(
        json.dumps({"upstreams": {"it": {"url": url}}, **addresses, **more})
    )
    async with running_app(Settings(path), environ) as app:
        yield app.addresses.listen


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "[::1]"])
async def test_loopback_upstreams_are_reached_past_a_dead_proxy(
    tmp_path: Path, host: str
) -> None:
    environ = {"HTTP_PROXY": DEAD, "HTTPS_PROXY": DEAD, "ALL_PROXY": DEAD}
    bound = host.strip("[]").replace("localhost", "127.0.0.1")
    async with raw_upstream(host=bound) as upstream:
        url = f"http://{host}:{upstream.url.rpartition(':')[2]}"
        async with sidecar(tmp_path, url, environ) as at:
            assert (await ask(at, GET)).status == 200


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_others_are_reached_through_it(tmp_path: Path, name: str) -> None:
    async with raw_upstream() as upstream, forward_proxy() as proxy:
        proxy.known["it.test:81"] = upstream.url
        environ = {name: proxy.url.replace("//", "//me:secret@")}
        async with sidecar(tmp_path, "http://it.test:81", environ) as at:
            assert (await ask(at, GET)).status == 200

        assert proxy.heads[0].startswith(b"GET http://it.test:81/v1//models?a=%2F HTTP")
        assert upstream.last.lines[-1] == b"X-A: 1"


@pytest.mark.parametrize(
    ("environ", "more"),
    [({"NO_PROXY": "x.test, .test"}, {}), ({}, {"proxy": "none"})],
)
async def test_what_is_spared_or_switched_off_does_not_go_through_it(
    tmp_path: Path, environ: Mapping[str, str], more: Mapping[str, object]
) -> None:
    async with forward_proxy() as proxy:
        both = {"ALL_PROXY": proxy.url, **environ}
        async with sidecar(tmp_path, "http://no-such.test:81", both, **more) as at:
            answered = await ask(at, GET)

        # No name server knows it: that it was asked itself is what this shows.
        assert b"name not found" in answered.body
        assert proxy.heads == []


@pytest.mark.parametrize(("rule", "is_used"), [("environment", True), ("none", False)])
async def test_a_collector_is_reached_by_the_same_rule(
    tmp_path: Path, rule: str, is_used: bool
) -> None:
    otlp = {"otlp": {"endpoint": "http://no-such.test:81"}}
    async with raw_upstream() as upstream, forward_proxy() as proxy:
        environ = {"ALL_PROXY": proxy.url}
        more = {"proxy": rule, "telemetry": otlp}
        async with sidecar(tmp_path, upstream.url, environ, **more) as at:
            assert (await ask(at, GET)).status == 200

        assert bool(proxy.heads) == is_used


async def test_a_dead_proxy_is_told_and_not_its_password(
    tmp_path: Path,
) -> None:
    environ = {"HTTP_PROXY": "http://me:secret@127.0.0.1:1"}
    async with sidecar(tmp_path, "http://it.test:81", environ) as at:
        answered = await ask(at, GET)

    assert answered.status == 502
    assert b"no way through the environment's proxy" in answered.body
    assert b"secret" not in answered.body
