from collections.abc import AsyncIterator

import aiohttp
import pytest

from deuz_proxy.edge.admin_guard import is_own_name, make_guard
from deuz_proxy.edge.admin_web import Application, Request, Response
from deuz_testing.admin import asked

NAMES = frozenset(("localhost", "sidecar.internal"))


async def show_ok(request: Request) -> Response:
    return Response(b"ok")


def app_with(token: str | None) -> Application:
    app = Application(guard=make_guard(token, ["Sidecar.Internal"]), headers={})
    for path in ("/", "/page/app.js", "/healthz", "/readyz", "/metrics", "/api/v1/x"):
        app.add("GET", path, show_ok)
    return app


@pytest.fixture
async def locked() -> AsyncIterator[aiohttp.ClientSession]:
    async with asked(app_with("s3crét")) as client:
        yield client


@pytest.fixture
async def unlocked() -> AsyncIterator[aiohttp.ClientSession]:
    async with asked(app_with("")) as client:
        yield client


async def code_of(
    client: aiohttp.ClientSession, path: str, **headers: str
) -> str | None:
    """The code of the refusal, None for an answer."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.get(path, headers=named) as answer:
        if answer.status == 200:
            return None
        code: str = (await answer.json())["error"]["code"]
        return code


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/healthz", "/readyz"])
async def test_health_and_the_page_itself_need_no_token(
    locked: aiohttp.ClientSession, path: str
) -> None:
    assert await code_of(locked, path) is None


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/x", "/api/v1/nowhere"])
async def test_all_else_needs_the_token(
    locked: aiohttp.ClientSession, path: str
) -> None:
    assert await code_of(locked, path) == "unauthorized"


async def test_refusal_without_a_token_names_the_scheme(
    locked: aiohttp.ClientSession,
) -> None:
    async with locked.get("/api/v1/x") as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_token_opens_whatever_the_case_of_its_scheme(
    locked: aiohttp.ClientSession, scheme: str
) -> None:
    assert await code_of(locked, "/api/v1/x", Authorization=f"{scheme} s3crét") is None


@pytest.mark.parametrize(
    "value", ["Bearer wrong", "Bearer", "Basic s3crét", "s3crét", "Bearer s3crét x"]
)
async def test_anything_but_the_token_is_refused(
    locked: aiohttp.ClientSession, value: str
) -> None:
    assert await code_of(locked, "/api/v1/x", Authorization=value) == "unauthorized"


async def test_with_a_token_any_name_of_the_host_will_do(
    locked: aiohttp.ClientSession,
) -> None:
    code = await code_of(
        locked, "/api/v1/x", Authorization="Bearer s3crét", Host="ops.example.com"
    )

    assert code is None


async def test_foreign_name_is_refused_without_a_token(
    unlocked: aiohttp.ClientSession,
) -> None:
    assert await code_of(unlocked, "/api/v1/x", Host="evil.example.com:4142") == (
        "unknown_host"
    )


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:4142",
        "localhost.:4142",
        "app.localhost:80",
        "127.0.0.1:4142",
        "[::1]:4142",
        "10.1.2.3:4142",
        "sidecar.internal",
        None,
    ],
)
def test_name_that_nobody_else_can_give_to_this_address_is_own(
    host: str | None,
) -> None:
    assert is_own_name(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "localhost.evil.example.com",
        "127.0.0.1.evil.example.com",
        "notlocalhost",
        "",
        "[::1",
        "127.0.0.1@evil.example.com",
        "2130706433",
    ],
)
def test_name_that_may_have_been_rebound_is_not_own(host: str) -> None:
    assert not is_own_name(host, NAMES)


@pytest.mark.parametrize("origin", ["http://evil.example.com", "null", ""])
async def test_script_of_another_site_is_refused(
    unlocked: aiohttp.ClientSession, origin: str
) -> None:
    assert await code_of(unlocked, "/healthz", Origin=origin) == "cross_origin"


async def test_script_of_the_own_page_is_answered(
    unlocked: aiohttp.ClientSession,
) -> None:
    code = await code_of(
        unlocked, "/api/v1/x", Origin="http://localhost:9", Host="localhost:9"
    )

    assert code is None
