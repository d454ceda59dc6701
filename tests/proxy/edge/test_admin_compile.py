"""A dry run tells what would be added, and leaves no trace."""

import json
from typing import Any

import pytest

from deuz_proxy.edge.admin_compile import GivenRequest
from deuz_testing.bodies import chat_body, user
from deuz_testing.line import make_config
from deuz_testing.memory_api import Api, served_admin

STORE = make_config(mode="observe", more="context: {sources: [{type: store, id: m}]}")
GREEN = {"text": "Ada likes green tea."}


async def remember(api: Api, scope: str = "default", **more: Any) -> None:
    status, _ = await api.call("PUT", f"/api/v1/memory/{scope}/r1", GREEN | more)
    assert status == 200


async def dry(api: Api, **body: Any) -> tuple[int, Any]:
    return await api.call("POST", "/api/v1/compile", body)


async def test_a_question_shows_the_block_it_would_get() -> None:
    async with served_admin(STORE) as api:
        await remember(api)

        status, told = await dry(api, text="which tea does Ada like?")

        assert status == 200
        assert GREEN["text"] in told["block"]
        assert told["sources"] == {"m": "ok"}
        (record,) = told["records"]
        assert (record["id"], record["is_selected"]) == ("r1", True)
        assert 0 < told["tokens"] <= told["budget_tokens"]


async def test_a_whole_request_may_be_given_for_any_known_path() -> None:
    body = chat_body([user("which tea does Ada like?")])
    async with served_admin(STORE) as api:
        await remember(api)

        status, told = await dry(
            api, path="/v1/chat/completions", body=json.loads(body)
        )

        assert status == 200
        assert GREEN["text"] in told["block"]


async def test_only_the_scope_that_is_named_is_asked() -> None:
    async with served_admin(STORE) as api:
        await remember(api, "acme%2Fada")

        _, other = await dry(api, text="which tea does Ada like?", scope="acme")
        _, hers = await dry(api, text="which tea does Ada like?", scope="acme/ada")

        assert (other["block"], other["sources"]) == ("", {"m": "empty"})
        assert GREEN["text"] in hers["block"]


async def test_nothing_is_kept_and_nothing_is_told() -> None:
    async with served_admin(STORE) as api:
        assert api.runtime is not None
        await remember(api)
        told = api.runtime.notice
        before = len(told.events)  # type: ignore[attr-defined]

        first = await dry(api, text="which tea does Ada like?")
        again = await dry(api, text="which tea does Ada like?")

        assert first == again
        assert len(told.events) == before  # type: ignore[attr-defined]


async def test_mandatory_records_that_do_not_fit_are_told_as_the_fallback() -> None:
    config = make_config(
        more="context: {budget: {max_tokens: 10}, sources: [{type: store, id: m}]}"
    )
    async with served_admin(config) as api:
        await remember(api, mandatory=True)

        status, told = await dry(api, text="hello")

        assert (status, told["block"]) == (200, "")
        assert told["fallback"]


async def test_a_required_source_that_is_down_is_no_fault_of_the_question() -> None:
    source = "{type: store, id: m, required: true}"
    config = make_config(on_error="closed", more=f"context: {{sources: [{source}]}}")
    async with served_admin(config) as api:
        await api.close_store()

        status, told = await dry(api, text="hello")

    assert (status, told["error"]["code"]) == (503, "context_refused")
    context, down = told["error"]["faults"]
    assert context["where"] == "context"
    assert "source-failed" in context["what"]
    assert down["where"] == "source m"
    assert "store_failed" in down["what"]


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body"),
        ({"text": "a", "body": {}}, "body"),
        ({"body": {"a": 1}}, "body"),
        ({"path": "/@nobody/v1/messages", "body": {}}, "path"),
        ({"path": "/v1/files", "body": {}}, "body"),
        ({"text": "a", "scope": "a b"}, "body.scope"),
    ],
)
async def test_what_cannot_be_compiled_is_told(body: Any, where: str) -> None:
    async with served_admin(STORE) as api:
        status, told = await dry(api, **body)

        assert (status, told["error"]["faults"][0]["where"]) == (400, where)


async def test_a_given_request_is_read_and_streamed_alike() -> None:
    given = GivenRequest("/x", b"body")

    assert given.body_here(limit_bytes=1) == b"body"
    assert await given.read_body(limit_bytes=1) == b"body"
    assert [piece async for piece in given.stream_body()] == [b"body"]
