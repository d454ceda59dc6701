"""Working memory over HTTP, in front of a real store."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from deuz_testing.line import make_config
from deuz_testing.memory_api import Api, served_admin


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    async with served_admin() as made:
        yield made


GOAL = {"op": "set-goal", "text": "Ship it"}


def patch(name: str, revision: int, *operations: Any, writer: str = "host") -> Any:
    return {
        "operation_id": name,
        "expected_revision": revision,
        "writer": writer,
        "operations": list(operations),
    }


async def test_working_memory_is_patched_once_and_read(api: Api) -> None:
    path = "/api/v1/working-memory/task-1"
    note = {"op": "add-observation", "text": "Tests are red."}

    empty = await api.call("GET", path)
    applied = await api.call("PATCH", path, patch("op-1", 0, GOAL, note))
    again = await api.call("PATCH", path, patch("op-1", 0, GOAL, note))
    lost = await api.call("PATCH", path, patch("op-2", 0, GOAL))

    assert empty[1]["revision"] == 0
    ids = ["observations-1-0"]
    assert applied == (200, {"status": "applied", "revision": 1, "ids": ids})
    assert again == (200, {"status": "duplicate", "revision": 1, "ids": ids})
    assert lost[1] == {
        "status": "rejected",
        "revision": 1,
        "reason": "revision-mismatch",
    }
    _, read = await api.call("GET", path)
    assert (read["key"], read["scope"], read["revision"]) == ("task-1", "default", 1)
    assert read["working_memory"]["goal"]["text"] == "Ship it"


async def test_a_model_may_not_do_what_is_the_hosts(api: Api) -> None:
    path = "/api/v1/working-memory/task-1"

    _, told = await api.call("PATCH", path, patch("op-1", 0, GOAL, writer="model"))

    assert (told["status"], told["reason"], told["operation"]) == (
        "rejected",
        "forbidden",
        0,
    )


async def test_working_memory_of_another_scope_is_another(api: Api) -> None:
    path = "/api/v1/working-memory/task-1"
    await api.call("PATCH", f"{path}?scope=acme", patch("op-1", 0, GOAL))

    assert (await api.call("GET", path))[1]["revision"] == 0
    assert (await api.call("GET", f"{path}?scope=acme%2Fx"))[1]["revision"] == 0
    assert (await api.call("GET", f"{path}?scope=acme"))[1]["revision"] == 1


async def test_working_memory_is_forgotten(api: Api) -> None:
    path = "/api/v1/working-memory/task-1"
    await api.call("PATCH", path, patch("op-1", 0, GOAL))

    gone = await api.call("DELETE", path)

    assert gone == (200, {"forgotten": 1, "placements_redacted": 0})
    assert (await api.call("DELETE", path))[1]["forgotten"] == 0
    assert (await api.call("GET", path))[1]["revision"] == 0


async def test_where_there_are_tenants_the_scope_has_to_be_named() -> None:
    digest = "sha256:" + "ab" * 32
    config = make_config(more=f'tenants: {{acme: {{keys: ["{digest}"]}}}}')
    async with served_admin(config) as api:
        status, told = await api.call("GET", "/api/v1/working-memory/k")

    assert (status, told["error"]["faults"][0]["where"]) == (400, "scope")
