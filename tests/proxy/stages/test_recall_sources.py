import asyncio
from typing import Any

import pytest

from deuz_compiler import (
    Candidate,
)
from deuz_proxy.calls import Call, Known
from deuz_proxy.errors import SourceFailed
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.recall import recall_context
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    user,
)
from deuz_testing.conversation import (
    ASK,
    admitted,
    anthropic_answer,
    client_gets,
    client_is_refused,
    conversation,
    request,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest
from deuz_testing.waiting import until

TURNS = [user("one"), assistant("a"), user("two"), assistant("b"), user("three")]


OK = anthropic_answer()


BODY = anthropic_body(ASK)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


async def call_of(
    runtime: Runtime, turns: list[Any], *lines: tuple[bytes, bytes]
) -> Call:
    return await admitted(runtime, GivenRequest(anthropic_body(turns), headers=lines))


async def recalled(runtime: Runtime, turns: list[Any] = TURNS) -> Known:
    return await recall_context(await call_of(runtime, turns), runtime)


async def test_a_late_source_is_left_behind_and_others_are_placed(told: Told) -> None:
    late = FixedSource(seconds=600, id="slow")
    config = make_config(more="context: {refresh: {deadline_ms: 30}}")
    runtime = make_runtime(config, told, sources=[late, FixedSource()])

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.compile is not None
    assert told.last.compile.fallback == "source-late"
    assert {s.source: s.status for s in told.last.compile.sources} == {
        "slow": "late",
        "rules": "ok",
    }


async def test_a_huge_source_is_bounded_and_what_is_mandatory_stays(
    told: Told,
) -> None:
    many = [
        Candidate(source="rules", kind="memory", record_id=f"o{n}", text="x" * 2000)
        for n in range(500)
    ]
    must = Candidate(
        source="rules",
        kind="memory",
        record_id="last",
        text="Must.",
        requirement="mandatory",
    )
    runtime = make_runtime(
        make_config(), told, sources=[FixedSource(found=[*many, must])]
    )

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(lambda asked: "Must." in asked.body.decode())
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.compile is not None
    assert len(told.last.compile.records) == 21
    assert told.last.compile.tokens <= 8192


async def test_a_required_source_that_fails_refuses_on_a_closed_route_only(
    told: Told,
) -> None:
    more = (
        "context: {sources: [{id: rules, kind: memory, type: static,"
        " required: true, records: []}]}"
    )
    failing = FixedSource(found=ValueError(), is_required=True)
    closed = make_runtime(
        make_config(on_error="closed", more=more), told, sources=[failing]
    )
    await (
        conversation(closed) >> request(BODY) << client_is_refused("context_refused")
    )

    opened = make_runtime(make_config(more=more), told, sources=[failing])
    talk = conversation(opened) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    shadow = make_runtime(
        make_config(on_error="closed", mode="shadow", more=more),
        told,
        sources=[failing],
    )
    talk = conversation(shadow) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def statuses(runtime: Runtime, told: Told) -> dict[str, tuple[str, str | None]]:
    known = await recalled(runtime)

    assert known.gathered is not None
    return {a.source: (a.status, a.error) for a in known.gathered.answers}


async def test_a_source_that_keeps_failing_rests_and_is_not_asked(told: Told) -> None:
    failing = FixedSource(found=SourceFailed(source="kb", reason="status"), id="kb")
    config = make_config(more="context: {refresh: {rest_after: 2}}")
    runtime = make_runtime(config, told, sources=[failing, FixedSource()])

    seen = [await statuses(runtime, told) for _ in range(3)]

    assert [each["kb"] for each in seen] == [
        ("failed", "status"),
        ("failed", "status"),
        ("skipped", "resting"),
    ]
    assert {each["rules"] for each in seen} == {("ok", None)}
    assert len(failing.asked) == 2


async def test_a_source_that_is_not_ready_is_skipped_and_asked_again(
    told: Told,
) -> None:
    reading = FixedSource(
        found=SourceFailed(source="docs", reason=SourceFailed.NOT_READY), id="docs"
    )
    config = make_config(more="context: {refresh: {rest_after: 1}}")
    runtime = make_runtime(config, told, sources=[reading, FixedSource()])

    seen = [await statuses(runtime, told) for _ in range(2)]

    expected = {"docs": ("skipped", "not_ready"), "rules": ("ok", None)}
    assert seen == [expected, expected]
    assert len(reading.asked) == 2


async def test_a_required_source_that_is_not_ready_is_one_that_failed(
    told: Told,
) -> None:
    more = (
        "context: {sources: [{id: rules, kind: memory, type: static,"
        " required: true, records: []}]}"
    )
    not_ready = SourceFailed(source="rules", reason=SourceFailed.NOT_READY)
    source = FixedSource(found=not_ready, is_required=True)
    closed = make_runtime(
        make_config(on_error="closed", more=more), told, sources=[source]
    )

    await (
        conversation(closed) >> request(BODY) << client_is_refused("context_refused")
    )


async def test_a_required_source_that_rests_is_one_that_failed(told: Told) -> None:
    more = (
        "context: {refresh: {rest_after: 1}, sources: [{id: rules, kind: memory,"
        " type: static, required: true, records: []}]}"
    )
    failing = FixedSource(found=ValueError(), is_required=True)
    closed = make_runtime(
        make_config(on_error="closed", more=more), told, sources=[failing]
    )

    for _ in range(2):
        await (
            conversation(closed)
            >> request(BODY)
            << client_is_refused("context_refused")
        )

    assert len(failing.asked) == 1


async def test_a_client_that_leaves_says_nothing_of_the_source(told: Told) -> None:
    slow = FixedSource(seconds=60)
    config = make_config(more="context: {refresh: {deadline_ms: 30000, rest_after: 1}}")
    runtime = make_runtime(config, told, sources=[slow])
    before = asyncio.all_tasks()

    async with asyncio.TaskGroup() as group:
        leaving = group.create_task(recalled(runtime))
        await until(lambda: bool(slow.asked))
        leaving.cancel()

    assert runtime.breakers.admit("rules")
    assert asyncio.all_tasks() == before


async def test_past_the_limit_only_sources_of_mandatory_records_are_asked(
    told: Told,
) -> None:
    rules = FixedSource(id="rules")
    docs = FixedSource(id="docs", gives_mandatory=False)
    config = make_config(more="context: {refresh: {max_passes: 1}}")
    runtime = make_runtime(config, told, sources=[rules, docs])
    grown = [*ASK, assistant("a"), user("and now?")]

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    talk = talk >> upstream_says(OK) << client_gets(OK.chunks[0])
    talk = talk >> request(anthropic_body(grown)) << upstream_gets(with_block(grown, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert (len(rules.asked), len(docs.asked)) == (2, 1)
