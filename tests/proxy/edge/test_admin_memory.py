"""The memory API over HTTP, in front of a real store and a real ledger."""

import gzip
import io
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio

from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.memory.forgetting import Memory
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.memory_api import Api, served_admin

CANARY = "canary-text-7f3a"
ACME = f"/api/v1/memory/{quote('acme/ada', safe='')}"


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    async with served_admin() as made:
        yield made


async def test_a_record_is_put_and_read(api: Api) -> None:
    body = {
        "text": "Ada likes green.",
        "mandatory": True,
        "expires_at": 4e9,
        "origin": "crm",
        "source_kinds": ["chat"],
    }

    put = await api.call("PUT", f"{ACME}/r1", body)

    assert put == (200, {"id": "r1", "revision": 1, "digest": put[1]["digest"]})
    assert put[1]["digest"].startswith("sha256:")
    assert await api.call("GET", f"{ACME}/r1") == (200, {**put[1], **body})


async def test_an_equal_text_keeps_its_revision(api: Api) -> None:
    first = await api.call("PUT", f"{ACME}/r1", {"text": "one"})
    again = await api.call("PUT", f"{ACME}/r1", {"text": "one", "origin": "x"})
    other = await api.call("PUT", f"{ACME}/r1", {"text": "two"})

    assert first == again
    assert (other[1]["revision"], first[1]["revision"]) == (2, 1)
    assert other[1]["digest"] != first[1]["digest"]


async def test_a_query_finds_the_best_first_with_scores(api: Api) -> None:
    await api.call("PUT", f"{ACME}/a", {"text": "Ada likes green tea."})
    await api.call("PUT", f"{ACME}/b", {"text": "Ada likes trains."})

    status, found = await api.call("GET", f"{ACME}?query=green+tea&limit=1")

    assert status == 200
    (record,) = found["records"]
    assert (record["id"], record["text"]) == ("a", "Ada likes green tea.")
    assert record["score"] > 0.5


async def test_a_list_goes_on_where_its_cursor_says(api: Api) -> None:
    ids = sorted(f"r/{number} 語" for number in range(7))
    records = [{"id": each, "text": "x"} for each in ids]
    assert (await api.call("PUT", ACME, {"records": records}))[0] == 200

    listed: list[str] = []
    page: dict[str, Any] = {}
    cursor = ""
    for _ in range(4):
        _, page = await api.call("GET", f"{ACME}?limit=2{cursor}")
        listed += [record["id"] for record in page["records"]]
        cursor = f"&cursor={page.get('next_cursor')}"

    assert listed == ids
    assert "next_cursor" not in page


async def test_a_time_with_its_zone_is_taken_and_a_past_one_is_not_there(
    api: Api,
) -> None:
    for record_id, moment in (("new", "2100-01-01T00:00:00+01:00"), ("old", 1.0)):
        body = {"text": "green", "expires_at": moment}
        assert (await api.call("PUT", f"{ACME}/{record_id}", body))[0] == 200

    _, listed = await api.call("GET", ACME)

    assert [record["id"] for record in listed["records"]] == ["new"]
    assert listed["records"][0]["expires_at"] == 4102441200.0
    assert (await api.call("GET", f"{ACME}/old"))[0] == 404


@pytest.mark.parametrize("other", ["acme", "acme%2Fben", "other"])
async def test_no_scope_sees_anothers_records(api: Api, other: str) -> None:
    await api.call("PUT", f"{ACME}/r1", {"text": CANARY})
    path = f"/api/v1/memory/{other}"

    answers = [
        await api.call("GET", f"{path}/r1"),
        await api.call("GET", f"{path}?query={CANARY}"),
        await api.call("GET", path),
        await api.call("DELETE", f"{path}/r1"),
        await api.call("DELETE", path),
    ]

    assert CANARY not in json.dumps(answers)
    assert (await api.call("GET", f"{ACME}/r1"))[0] == 200


@pytest.mark.parametrize("way", ["delete", "forget", "scope"])
async def test_forgetting_tells_how_many_were_there(api: Api, way: str) -> None:
    await api.call("PUT", f"{ACME}/r1", {"text": "one", "expires_at": 1})
    await api.call("PUT", f"{ACME}/r1", {"text": "one"})

    if way == "delete":
        answered = await api.call("DELETE", f"{ACME}/r1")
    elif way == "forget":
        ids = {"scope": "acme/ada", "ids": ["r1", "r2"]}
        answered = await api.call("POST", "/api/v1/forget", ids)
    else:
        answered = await api.call("DELETE", ACME)

    assert answered == (200, {"forgotten": 1, "placements_redacted": 0})
    assert (await api.call("GET", f"{ACME}/r1"))[0] == 404


async def test_an_export_is_imported_elsewhere(api: Api) -> None:
    records: list[dict[str, Any]] = [
        {"id": f"r{number:03}", "text": f"語 {number}\n", "mandatory": number == 3}
        for number in range(450)
    ]
    await api.call("PUT", ACME, {"records": records})

    exported = await api.text("GET", "/api/v1/memory-export/acme%2Fada")
    imported = await api.text("POST", "/api/v1/memory-import/other", exported)

    assert len(exported.splitlines()) == 450
    assert json.loads(exported.splitlines()[3])["mandatory"]
    assert len(json.loads(imported)["records"]) == 450
    assert await api.text("GET", "/api/v1/memory-export/other") == exported


async def test_an_empty_scope_has_an_empty_export(api: Api) -> None:
    assert await api.text("GET", "/api/v1/memory-export/nobody") == ""


async def test_an_import_with_faults_keeps_nothing_and_tells_them_by_line(
    api: Api,
) -> None:
    lines = [
        json.dumps({"id": "a", "text": CANARY}),
        "",
        "no json",
        json.dumps({"id": "b"}),
    ]

    status, told = await api.call(
        "POST", "/api/v1/memory-import/acme", "\n".join(lines).encode()
    )

    assert status == 400
    places = [fault["where"] for fault in told["error"]["faults"]]
    assert places == ["line 2", "line 3.text"]
    assert CANARY not in json.dumps(told)
    assert (await api.call("GET", "/api/v1/memory/acme"))[1] == {"records": []}


async def test_all_faults_of_a_body_are_told_at_once_and_none_with_its_value(
    api: Api,
) -> None:
    body = {
        "text": f"{CANARY}\x00",
        "mandatory": CANARY,
        "expires_at": CANARY,
        "origin": 7,
        "source_kinds": CANARY,
        "more": CANARY,
    }

    status, told = await api.call("PUT", f"{ACME}/r1", body)

    assert status == 400
    error = told["error"]
    assert error["code"] == "invalid_request"
    assert {fault["where"] for fault in error["faults"]} == {
        "body.text",
        "body.mandatory",
        "body.expires_at",
        "body.origin",
        "body.source_kinds",
        "body.more",
    }
    assert all(fault["what"] in error["message"] for fault in error["faults"])
    assert CANARY not in json.dumps(told)


@pytest.mark.parametrize(
    ("method", "path", "body", "where"),
    [
        ("PUT", f"{ACME}/r1", b"", "body"),
        ("PUT", f"{ACME}/r1", b"[]", "body"),
        ("PUT", f"{ACME}/r1", b"\xff", "body"),
        ("PUT", f"{ACME}/r1", {"text": " \n"}, "body.text"),
        ("PUT", f"{ACME}/r1", {"text": "x" * 65_537}, "body.text"),
        ("PUT", f"{ACME}/r1", b'{"text": "\\ud800"}', "body"),
        ("PUT", f"{ACME}/{'x' * 257}", {"text": "x"}, "id"),
        ("PUT", f"{ACME}/a%0Ab", {"text": "x"}, "id"),
        ("PUT", "/api/v1/memory/a%20b/r1", {"text": "x"}, "scope"),
        ("PUT", "/api/v1/memory/a%2Fb%2Fc/r1", {"text": "x"}, "scope"),
        ("GET", f"{ACME}?limit=0", None, "limit"),
        ("GET", f"{ACME}?limit=x", None, "limit"),
        ("GET", f"{ACME}?cursor=!!", None, "cursor"),
        ("GET", f"{ACME}?cursor=YQ&query=a", None, "cursor"),
        ("POST", "/api/v1/forget", {"scope": "a b", "ids": []}, "body.scope"),
        ("POST", "/api/v1/forget", {"scope": "a", "ids": [""]}, "body.ids.0"),
        ("POST", "/api/v1/forget", {"scope": "a", "ids": "r"}, "body.ids"),
        ("GET", "/api/v1/working-memory/a%20b", None, "key"),
        ("GET", "/api/v1/working-memory/k?scope=a%20b", None, "scope"),
        ("PATCH", "/api/v1/working-memory/k", b"no", "body"),
        ("PATCH", "/api/v1/working-memory/k", {}, "patch"),
    ],
)
async def test_what_is_wrong_is_told_with_its_place(
    api: Api, method: str, path: str, body: Any, where: str
) -> None:
    status, told = await api.call(method, path, body)

    assert status == 400
    assert told["error"]["faults"][0]["where"] == where
    assert told["error"]["faults"][0]["what"]


async def test_a_body_over_the_limit_is_refused_before_its_end(api: Api) -> None:
    async with api.session.put(
        f"{api.url}/api/v1/memory/acme/r1", data=io.BytesIO(b"x" * 5_000_000)
    ) as answer:
        told = await answer.json()

    assert (answer.status, told["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (gzip.compress(b'{"text": "x"}', mtime=0), 200, None),
        (gzip.compress(b"x" * 5_000_000, mtime=0), 413, "body_too_large"),
        (gzip.compress(b'{"text": "x"}', mtime=0)[:-1], 400, "invalid_request"),
    ],
)
async def test_a_compressed_body_is_read_within_the_same_limit(
    api: Api, body: bytes, status: int, code: str | None
) -> None:
    got, told = await api.call(
        "PUT", f"{ACME}/r1", body, headers={"Content-Encoding": "gzip"}
    )

    assert (got, told.get("error", {}).get("code")) == (status, code)


async def test_a_store_that_fails_is_told_as_ours(api: Api) -> None:
    await api.close_store()

    status, told = await api.call("GET", ACME)

    assert (status, told["error"]["code"]) == (503, "store_unavailable")


async def test_without_a_memory_the_api_says_so() -> None:
    runtime = make_runtime(make_config(), Told())
    parts = AdminParts(
        Feed(generation="g"), lambda _: (b"", ""), tuple, dict, runtime=lambda: runtime
    )
    async with served_admin(app=make_admin(parts)) as api:
        for path in (ACME, "/api/v1/working-memory/k"):
            assert (await api.call("GET", path))[0] == 503


async def test_with_a_token_all_of_it_asks_for_the_token() -> None:
    async with served_admin(token="hush") as api:
        for method, path in (
            ("GET", ACME),
            ("PUT", f"{ACME}/r"),
            ("DELETE", f"{ACME}/r"),
            ("POST", "/api/v1/forget"),
            ("POST", "/api/v1/compile"),
            ("GET", "/api/v1/memory-export/acme"),
            ("POST", "/api/v1/memory-import/acme"),
            ("PATCH", "/api/v1/working-memory/k"),
            ("GET", "/api/v1/openapi.json"),
        ):
            assert (await api.call(method, path, {}))[0] == 401
        headers = {"Authorization": "Bearer hush"}
        assert (await api.call("GET", ACME, headers=headers))[0] == 200


async def test_another_sites_script_is_refused(api: Api) -> None:
    headers = {"Origin": "http://evil.example"}

    answered = await api.call("PUT", f"{ACME}/r", {"text": "x"}, headers=headers)

    assert answered[0] == 403


async def test_stores_behind_the_api_are_the_lines_own() -> None:
    records = await SqliteMemory(":memory:", words_of=words_of).open()
    runtime = make_runtime(make_config(), Told())
    memory = Memory(records, runtime.ledger, clock=lambda: 5.0)
    notes = WorkingMemory(records, clock=lambda: 5.0)
    runtime = make_runtime(make_config(), Told(), memory=memory, notes=notes)
    parts = AdminParts(
        Feed(generation="g"), lambda _: (b"", ""), tuple, dict, runtime=lambda: runtime
    )

    async with served_admin(app=make_admin(parts)) as api:
        await api.call("PUT", f"{ACME}/r1", {"text": "green"})

    assert await records.get("acme/ada", "r1", now=5.0) is not None
    assert isinstance(api.session, aiohttp.ClientSession)
    await records.close()
