import asyncio
import gzip
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from deuz_proxy.config.outside import HttpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.http import HttpService
from deuz_testing.http_service import running_service, validator
from deuz_testing.upstreams import Answer, Got, answer_with, raw_upstream
from deuz_testing.waiting import WAIT_SECONDS

QUERY = Query("rivers", "acme/anna", 5)
RECORDS: dict[str, list[dict[str, Any]]] = {
    "acme/anna": [{"id": "r1", "text": "rivers run to the sea", "score": 0.8}],
    "acme/ben": [{"id": "r2", "text": "rivers of ben"}],
    "globex/anna": [{"id": "r3", "text": "rivers of globex"}],
}
EMPTY = b'{"records": []}'
Open = Callable[..., HttpService]


@pytest_asyncio.fixture
async def open_source() -> AsyncIterator[Open]:
    opened: list[HttpService] = []

    def made(url: str, **fields: Any) -> HttpService:
        config = HttpSource.model_validate(
            {"type": "http", "id": "kb", "url": url, **fields}
        )
        opened.append(HttpService(config))
        return opened[-1]

    yield made
    for source in opened:
        await source.close()


def said(body: bytes, *lines: bytes, status: bytes = b"200 OK") -> bytes:
    head = b"".join(line + b"\r\n" for line in lines)
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
        status,
        len(body),
        head,
        body,
    )


async def reason_of(open_source: Open, answer: Answer, **fields: Any) -> str:
    async with raw_upstream(answer) as service:
        source = open_source(service.url, **fields)
        with pytest.raises(SourceFailed) as caught:
            await source.find(QUERY)
    return caught.value.reason


async def test_a_service_is_asked_by_the_contract_and_answers_by_it(
    open_source: Open,
) -> None:
    async with running_service(RECORDS) as service:
        source = open_source(service.url)

        (found,) = await source.find(QUERY)

    assert (found.key, found.text, found.score) == (
        "kb/r1",
        "rivers run to the sea",
        0.8,
    )
    assert service.asked == [
        {"version": 1, "query": "rivers", "scope": "acme/anna", "limit": 5}
    ]
    assert validator("question").is_valid(service.asked[0])
    assert validator("answer").is_valid(service.answered[0])


async def test_every_scope_gets_its_own_records_at_the_same_time(
    open_source: Open,
) -> None:
    async with running_service(RECORDS) as service:
        source = open_source(service.url)
        scopes = [*RECORDS, "acme", "globex"] * 20

        answers = await asyncio.gather(
            *[source.find(Query("rivers", scope, 5)) for scope in scopes]
        )

    assert [[c.text for c in found] for found in answers] == [
        [record["text"] for record in RECORDS.get(scope, [])] for scope in scopes
    ]


async def test_a_record_of_another_scope_is_left_out_and_counted(
    open_source: Open,
) -> None:
    wide = {"acme/anna": [*RECORDS["acme/anna"], {**RECORDS["acme/ben"][0]}]}
    wide["acme/anna"][1]["scope"] = "acme/ben"
    async with running_service(wide) as service:
        source = open_source(service.url)

        found = await source.find(QUERY)

    assert [each.record_id for each in found] == ["r1"]
    assert source.refused == 1


async def test_the_credential_is_sent_and_stands_in_no_error(
    open_source: Open,
) -> None:
    async with running_service(RECORDS, token="Bearer canary-7") as service:
        good = open_source(service.url, headers={"Authorization": "Bearer canary-7"})
        bad = open_source(service.url, headers={"Authorization": "Bearer canary-8"})

        assert len(await good.find(QUERY)) == 1
        with pytest.raises(SourceFailed) as caught:
            await bad.find(QUERY)

    assert caught.value.reason == "status"
    assert "canary" not in repr(caught.value) + str(caught.value)
    assert "rivers" not in repr(caught.value)


async def test_one_connection_serves_questions_one_after_another(
    open_source: Open,
) -> None:
    peers = set()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response({"records": []})

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    source = open_source(f"http://127.0.0.1:{runner.addresses[0][1]}")

    assert [await source.find(QUERY) for _ in range(3)] == [(), (), ()]
    await source.close()
    await runner.cleanup()

    assert len(peers) == 1


@pytest.mark.parametrize("status", [b"204 X", b"401 X", b"404 X", b"500 X", b"503 X"])
async def test_only_200_is_an_answer(open_source: Open, status: bytes) -> None:
    assert (
        await reason_of(open_source, answer_with(said(b"", status=status))) == "status"
    )


@pytest.mark.parametrize("status", [b"301 X", b"302 X", b"307 X", b"308 X"])
async def test_a_redirect_is_not_followed(open_source: Open, status: bytes) -> None:
    async with raw_upstream() as elsewhere:
        line = b"Location: " + elsewhere.url.encode()
        text = said(b"", line, status=status)

        assert await reason_of(open_source, answer_with(text)) == "redirect"
        assert elsewhere.requests == []


async def test_a_redirect_to_itself_ends_at_the_first(open_source: Open) -> None:
    async with raw_upstream(
        answer_with(said(b"", b"Location: /", status=b"307 X"))
    ) as service:
        with pytest.raises(SourceFailed):
            await open_source(service.url).find(QUERY)

    assert len(service.requests) == 1


async def test_a_page_of_html_is_no_answer(open_source: Open) -> None:
    text = said(b"<html>Bad gateway</html>", b"Content-Type: text/html")

    assert await reason_of(open_source, answer_with(text)) == "not_json"


async def test_a_compressed_answer_is_not_unpacked(open_source: Open) -> None:
    bomb = gzip.compress(b" " * 10_000_000)

    text = said(bomb, b"Content-Encoding: gzip")

    assert await reason_of(open_source, answer_with(text)) == "encoding"


async def test_an_answer_over_its_limit_is_dropped_unread(open_source: Open) -> None:
    async def endless(got: Got) -> None:
        await got.read_body()
        await got.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10_000):
            await got.say(b"10000\r\n" + b" " * 65_536 + b"\r\n")

    assert (
        await reason_of(open_source, endless, max_answer_bytes=100_000) == "too_large"
    )


async def test_an_answer_of_just_its_limit_is_read(open_source: Open) -> None:
    body = EMPTY + b" " * (2048 - len(EMPTY))
    async with raw_upstream(answer_with(said(body))) as service:
        assert await open_source(service.url, max_answer_bytes=2048).find(QUERY) == ()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    ],
)
async def test_an_answer_that_breaks_off_or_is_no_http_is_broken(
    open_source: Open, text: bytes
) -> None:
    assert await reason_of(open_source, answer_with(text, closes=True)) == "broken"


async def test_a_service_that_is_not_there_is_unreachable(open_source: Open) -> None:
    async with raw_upstream() as service:
        url = service.url

    with pytest.raises(SourceFailed) as caught:
        await open_source(url).find(QUERY)

    assert caught.value.reason == "unreachable"


async def test_who_gives_up_waiting_leaves_neither_task_nor_connection(
    open_source: Open,
) -> None:
    async def drip(got: Got) -> None:
        await got.read_body()
        await got.say(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        await got.until_gone()

    async with raw_upstream(drip) as service:
        source = open_source(service.url)
        before = len(asyncio.all_tasks())
        async with asyncio.TaskGroup() as group:
            finding = group.create_task(source.find(QUERY))
            got = await service.until_asked()
            finding.cancel()
        async with asyncio.timeout(WAIT_SECONDS):
            await got.gone.wait()

        # The server's own task of the connection may still be on its way out.
        assert len(asyncio.all_tasks()) <= before + 1
        assert finding.cancelled()


async def test_proxies_of_the_environment_are_not_used(
    open_source: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with running_service(RECORDS) as service:
        assert len(await open_source(service.url).find(QUERY)) == 1


async def test_cookies_are_not_kept(open_source: Open) -> None:
    text = said(EMPTY, b"Set-Cookie: a=b")
    async with raw_upstream(answer_with(text)) as service:
        source = open_source(service.url)
        await source.find(QUERY)
        await source.find(QUERY)

    assert service.last.header(b"cookie") == []


async def test_a_closed_source_fails_and_closes_again(open_source: Open) -> None:
    source = open_source("http://127.0.0.1:1")
    await source.close()
    await source.close()

    with pytest.raises(SourceFailed, match="it is closed"):
        await source.find(QUERY)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest_asyncio.fixture
async def tls_url(certificate: Path) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"records": RECORDS["acme/anna"]})

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://localhost:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_a_certificate_of_yours_is_trusted_where_it_is_named(
    open_source: Open, tls_url: str, certificate: Path
) -> None:
    source = open_source(tls_url, ca_file=certificate / "cert.pem")

    assert len(await source.find(QUERY)) == 1


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    open_source: Open, tls_url: str
) -> None:
    with pytest.raises(SourceFailed) as caught:
        await open_source(tls_url).find(QUERY)

    assert caught.value.reason == "tls"


async def test_certificates_that_cannot_be_read_are_a_failure_of_the_source(
    open_source: Open, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")

    with pytest.raises(SourceFailed) as caught:
        await open_source("https://localhost:1", ca_file=tmp_path / "ca.pem").find(
            QUERY
        )

    assert caught.value.reason == "tls"
