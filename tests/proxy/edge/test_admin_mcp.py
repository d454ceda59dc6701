"""The memory's tools, as the protocol's official client uses them."""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from deuz_proxy.config.model import Config
from deuz_testing.line import make_config
from deuz_testing.memory_api import Api, served_admin

TOKEN, AGENT = "owner-token", "agent-token"
DIGEST = hashlib.sha256(AGENT.encode()).hexdigest()
CANARY = "canary-9f1c"


def granted() -> Config:
    grant = f'{{key: "sha256:{DIGEST}", scope: acme/ada}}'
    return make_config(more=f"memory: {{grants: {{agent: {grant}}}}}")


@asynccontextmanager
async def tools(api: Api, token: str | None = None) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"{api.url}/mcp", http_client=http)) as client,
    ):
        yield client


async def use(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    text = result.content[0].text  # type: ignore[union-attr]
    assert json.loads(text) == result.structured_content
    return result.structured_content


async def test_the_official_client_remembers_searches_lists_and_forgets() -> None:
    async with served_admin() as api, tools(api) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == [
            "remember",
            "search",
            "forget",
            "list",
        ]
        first = await use(client, "remember", text="Ada likes green tea.")
        again = await use(client, "remember", text="Ada likes green tea.")
        named = await use(client, "remember", text="Trains are late.", id="trains")

        assert first == again
        assert named == {"id": "trains", "revision": 1}
        found = await use(client, "search", query="which tea?", limit=1)
        assert [each["id"] for each in found["records"]] == [first["id"]]
        assert found["records"][0]["origin"] == "mcp"
        page = await use(client, "list", limit=1)
        rest = await use(client, "list", limit=1, cursor=page["next_cursor"])
        assert [len(page["records"]), len(rest["records"])] == [1, 1]
        gone = await use(client, "forget", ids=[first["id"], "unknown"])
        assert gone == {"forgotten": 1, "placements_redacted": 0}
        assert (await use(client, "search", query="which tea?"))["records"] == []


async def test_a_grant_uses_its_scope_and_no_other() -> None:
    async with served_admin(granted(), token=TOKEN) as api:
        async with tools(api, AGENT) as agent:
            schema = (await agent.list_tools()).tools[0].input_schema
            await use(agent, "remember", text="Hers.", id="r1")
            other = await agent.call_tool("list", {"scope": "acme"})
            odd = await agent.call_tool("list", {"scoop": "acme"})
            own = await use(agent, "list", scope="acme/ada")

        async with tools(api, TOKEN) as owner:
            seen = await use(owner, "list", scope="acme/ada")
            nothing = await use(owner, "list")

        assert "scope" not in schema["properties"]
        assert other.is_error
        # A word like it is not told to who may not know that there are scopes.
        assert "is not a known key (allowed: limit, cursor)" in str(odd.content)
        assert own == seen
        assert [each["id"] for each in seen["records"]] == ["r1"]
        assert nothing == {"records": []}


async def test_a_grants_token_opens_nothing_but_the_tools() -> None:
    async with served_admin(granted(), token=TOKEN) as api:
        headers = {"Authorization": f"Bearer {AGENT}"}
        for path in ("/api/v1/memory/acme%2Fada", "/metrics", "/api/v1/config"):
            assert (await api.call("GET", path, headers=headers))[0] == 401


@pytest.mark.parametrize("token", [None, "wrong", "", "owner-token-and-more"])
@pytest.mark.parametrize("admin", [TOKEN, None])
async def test_who_has_no_right_is_refused(
    token: str | None, admin: str | None
) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with served_admin(granted(), token=admin) as api:
        status, told = await api.call("POST", "/mcp", ping, headers=headers)

    is_owners_machine = admin is None and not token
    assert status == (200 if is_owners_machine else 401)
    assert ("error" in told) != is_owners_machine


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [
        ("remember", {}, "arguments.text"),
        ("remember", {"text": " "}, "arguments.text"),
        ("remember", {"text": "a\x00"}, "arguments.text"),
        ("remember", {"text": "a", "mandatory": True}, "arguments.mandatory"),
        ("remember", {"text": "a", "id": ""}, "arguments.id"),
        ("search", {"query": "a", "limit": 0}, "arguments.limit"),
        ("forget", {"ids": []}, "arguments.ids"),
        ("list", {"cursor": "!"}, "cursor"),
        ("list", {"scope": "a b"}, "arguments.scope"),
    ],
)
async def test_what_is_wrong_is_told_to_the_model_with_its_place(
    name: str, arguments: dict[str, Any], place: str
) -> None:
    async with served_admin() as api, tools(api) as client:
        result = await client.call_tool(name, arguments)

    assert result.is_error
    assert result.content[0].text.startswith(f"{place}: ")  # type: ignore[union-attr]


async def test_a_question_of_a_megabyte_is_answered() -> None:
    async with served_admin() as api, tools(api) as client:
        await use(client, "remember", text="Ada likes green tea.")

        found = await use(client, "search", query='tea" OR (NEAR ' * 80_000)

    assert isinstance(found["records"], list)


async def test_a_method_that_is_not_there_is_told_with_those_that_are() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "resources/list"}
    async with served_admin() as api:
        _, told = await api.call("POST", "/mcp", message)

    assert "tools/list, tools/call are" in told["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no json", 400, -32700),
        (b"[" * 100_000, 400, -32700),
        (b"[]", 400, -32600),
        (b'{"id": 1, "method": "ping"}', 400, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": CANARY}, 200, -32601),
        (
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": CANARY},
            },
            200,
            -32602,
        ),
    ],
)
async def test_what_is_no_message_of_the_protocol_is_told_without_its_words(
    body: Any, status: int, code: int
) -> None:
    async with served_admin() as api:
        answered, told = await api.call("POST", "/mcp", body)

    assert (answered, told["error"]["code"]) == (status, code)
    assert CANARY not in json.dumps(told)


async def test_a_notification_is_taken_note_of_and_sessions_are_not_offered() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    async with served_admin() as api:
        async with api.session.post(f"{api.url}/mcp", json=note) as answer:
            assert (answer.status, await answer.read()) == (202, b"")
        for method in ("GET", "DELETE"):
            assert (await api.call(method, "/mcp"))[0] == 405


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("1999", "2025-11-25"),
    ],
)
async def test_a_version_both_know_is_agreed_on(asked: str, taken: str) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    async with served_admin() as api:
        _, told = await api.call("POST", "/mcp", hello)

    assert told["result"]["protocolVersion"] == taken


async def test_a_store_that_fails_is_told_to_the_model() -> None:
    async with served_admin() as api, tools(api) as client:
        await api.close_store()
        result = await client.call_tool("list", {})

    assert result.is_error
    assert "did not answer" in result.content[0].text  # type: ignore[union-attr]
