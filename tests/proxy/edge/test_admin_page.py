import re
from collections.abc import AsyncIterator

import aiohttp
import pytest

from deuz_proxy.edge.admin_page import add_page, read_page
from deuz_testing.admin import asked, open_app


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    app = open_app()
    add_page(app)
    async with asked(app) as session:
        yield session


async def test_page_is_at_the_root(client: aiohttp.ClientSession) -> None:
    async with client.get("/") as answer:
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "<title>deuz-sidecar</title>" in await answer.text()


async def test_all_that_the_page_names_is_served_with_its_type(
    client: aiohttp.ClientSession,
) -> None:
    for name in read_page():
        async with client.get(f"/page/{name}") as answer:
            kind = answer.headers["Content-Type"].partition(";")[0]
            assert kind in {"text/html", "text/css", "text/javascript", "image/svg+xml"}


def test_page_names_only_files_of_its_own() -> None:
    page = read_page()

    texts = [file.body.decode() for file in page.values()]
    named = {name for text in texts for name in re.findall(r"/page/([\w.]+)", text)}
    assert named == set(page) - {"index.html"}


def test_page_has_no_script_or_style_in_its_markup() -> None:
    markup = read_page()["index.html"].body.decode()

    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", markup)


def test_page_never_turns_text_into_markup() -> None:
    scripts = [f.body.decode() for n, f in read_page().items() if n.endswith(".js")]

    assert len(scripts) == 4
    for script in scripts:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script
        )


async def test_unchanged_file_is_not_sent_again(client: aiohttp.ClientSession) -> None:
    async with client.get("/page/app.js") as answer:
        assert answer.headers["Cache-Control"] == "no-cache"
        tag = answer.headers["ETag"]

    async with client.get("/page/app.js", headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")
    async with client.get("/page/app.js", headers={"If-None-Match": '"x"'}) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fadmin.py", "%2e%2e%2fadmin.py"])
async def test_nothing_but_the_page_s_files_can_be_named(
    client: aiohttp.ClientSession, name: str
) -> None:
    async with client.get(f"/page/{name}") as answer:
        assert answer.status == 404
