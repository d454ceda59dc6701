import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.config.outside import McpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.mcp import McpTool
from deuz_testing.mcp_servers import STDIO, http_server, running_http
from deuz_testing.ports import free_port
from deuz_testing.waiting import is_running, until

pytestmark = pytest.mark.e2e

QUERY = Query("rivers", "acme/anna", 5)
Open = Callable[..., Any]


@pytest_asyncio.fixture
async def open_source() -> AsyncIterator[Open]:
    opened: list[McpTool] = []

    async def made(**fields: Any) -> McpTool:
        wire = {} if "url" in fields else {"command": STDIO}
        config = {"type": "mcp", "id": "m", "tool": "search", **wire, **fields}
        opened.append(McpTool(McpSource.model_validate(config)))
        await opened[-1].open()
        return opened[-1]

    yield made
    for source in opened:
        await source.close()


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with http_server() as url:
        yield url


@pytest.fixture(params=["stdio", "http"])
def wire(request: pytest.FixtureRequest, served: str) -> dict[str, Any]:
    return {"command": STDIO} if request.param == "stdio" else {"url": served}


async def told(source: McpTool, query: Query = QUERY) -> list[str]:
    """Return what the server says of the question and itself: pid, query, limit."""
    first = (await source.find(query))[0]
    return first.text.split(" ")


async def reason_of(source: McpTool, query: Query = QUERY) -> str:
    with pytest.raises(SourceFailed) as caught:
        await source.find(query)
    assert "rivers" not in str(caught.value)
    return caught.value.reason


async def test_a_tools_records_are_candidates(
    open_source: Open, wire: dict[str, Any]
) -> None:
    source = await open_source(**wire)

    _, first, second = await source.find(QUERY)

    assert (first.key, first.text, first.score) == (
        "m/1",
        "rivers run to the sea",
        0.9,
    )
    assert (first.origin, first.kind) == ("wiki/rivers", "rag")
    assert (second.record_id, second.score) == ("b", 0.4)


async def test_the_question_goes_into_the_arguments_that_are_named(
    open_source: Open, wire: dict[str, Any]
) -> None:
    plain = await open_source(**wire)
    named = await open_source(
        **wire, id="n", limit_argument="limit", scope_argument="scope"
    )
    fixed = await open_source(**wire, id="f", arguments={"limit": "2", "scope": '"7"'})

    assert (await told(plain))[1:] == ["rivers", "5", "", "x"]
    assert (await told(named, Query("rivers", "acme/anna", 3)))[1:] == [
        "rivers",
        "3",
        "acme/anna",
        "x",
    ]
    assert (await told(fixed))[1:] == ["rivers", "2", "7", "x"]


async def test_one_server_answers_all_questions_and_each_its_own(
    open_source: Open,
) -> None:
    source = await open_source(scope_argument="scope")
    scopes = [f"t{number}/s" for number in range(20)]

    answers = await asyncio.gather(
        *[told(source, Query("rivers", scope, 5)) for scope in scopes]
    )

    assert [answer[3] for answer in answers] == scopes
    assert len({answer[0] for answer in answers}) == 1


async def test_plain_texts_are_records_too(open_source: Open, served: str) -> None:
    source = await open_source(url=served, tool="texts")

    assert [(c.text, c.score) for c in await source.find(QUERY)] == [
        ("about rivers", 1.0),
        ("and more", 0.5),
    ]


@pytest.mark.parametrize(("tool", "reason"), [("boom", "tool"), ("no-such", "tool")])
async def test_a_tool_that_fails_is_a_failure_without_its_words(
    open_source: Open, served: str, tool: str, reason: str
) -> None:
    source = await open_source(url=served, tool=tool)

    assert await reason_of(source) == reason


async def test_an_answer_over_the_limit_ends_the_session(
    open_source: Open, wire: dict[str, Any]
) -> None:
    source = await open_source(**wire, tool="huge")

    assert await reason_of(source) == "broken"


async def test_a_result_without_the_named_list_has_another_shape(
    open_source: Open,
) -> None:
    source = await open_source(records="hits")

    assert await reason_of(source) == "wrong_shape"


async def test_a_server_that_was_killed_is_started_again(open_source: Open) -> None:
    source = await open_source()
    (before, *_) = await told(source)

    os.kill(int(before), signal.SIGKILL)

    (after, *_) = await told(source)
    assert after != before


async def test_a_server_that_dies_of_every_question_fails_each_of_them(
    open_source: Open,
) -> None:
    source = await open_source(tool="die")

    assert [await reason_of(source) for _ in range(2)] == ["broken", "broken"]


async def test_a_server_over_http_that_restarted_gets_a_new_session(
    open_source: Open,
) -> None:
    port = free_port()
    async with running_http(port) as url:
        source = await open_source(url=url)
        (before, *_) = await told(source)
    assert await reason_of(source) in ("unreachable", "broken")
    async with running_http(port):
        (after, *_) = await told(source)

    assert after != before


@pytest.mark.parametrize(
    "command", [["/no/such/program"], ["/bin/true"], ["/bin/echo", "no", "json"]]
)
async def test_a_program_that_is_no_server_is_a_failure(
    open_source: Open, command: list[str]
) -> None:
    source = await open_source(command=command)

    assert await reason_of(source) in ("unreachable", "protocol")


async def test_a_question_that_is_given_up_leaves_the_session_usable(
    open_source: Open, wire: dict[str, Any]
) -> None:
    source = await open_source(**wire, tool="slow")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(4):
            await source.find(QUERY)
    before = asyncio.all_tasks()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await source.find(QUERY)

    # Their last steps.
    await until(lambda: not asyncio.all_tasks() - before)


async def test_closing_ends_the_server_and_all_tasks(open_source: Open) -> None:
    before = asyncio.all_tasks()
    source = await open_source()
    (pid, *_) = await told(source)

    await source.close()
    await source.close()

    await until(lambda: not asyncio.all_tasks() - before)
    await until(lambda: not is_running(int(pid)))
    assert await reason_of(source) == "closed"


async def test_a_server_that_will_not_end_is_made_to(open_source: Open) -> None:
    known = await open_source()
    (pid, *_) = await told(known)
    os.kill(int(pid), signal.SIGSTOP)

    await known.close()

    await until(lambda: not is_running(int(pid)))


async def test_neither_server_nor_library_can_write_the_question_to_our_output(
    open_source: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    query = Query("canary-17", "default", 5)
    noisy = await open_source(tool="noise")
    await noisy.find(query)
    failing = await open_source(id="f", tool="boom")
    with pytest.raises(SourceFailed):
        await failing.find(query)
    huge = await open_source(id="h", tool="huge")
    with pytest.raises(SourceFailed):
        await huge.find(query)

    assert "canary" not in "".join(capfd.readouterr())
    assert not logging.getLogger("mcp").isEnabledFor(logging.CRITICAL)
