"""The line as conversations: what goes in, what the upstream gets, what comes out."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from deuz_compiler import Candidate, Operation, Progress, Resumed, Standing, Starts
from deuz_proxy.errors import StoreFailed, UpstreamBroken, UpstreamUnreachable
from deuz_proxy.ports import Query
from deuz_proxy.runtime import Runtime
from deuz_proxy.stores.estimates import Estimates
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.bodies import anthropic_body, assistant, tool_result, tool_use, user
from deuz_testing.conversation import (
    ASK,
    anthropic_answer,
    client_gets,
    client_is_refused,
    conversation,
    parts_of,
    request,
    upstream_gets,
    upstream_says,
    with_block,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Said
from deuz_testing.waiting import until

OK = anthropic_answer()


BODY = anthropic_body(ASK)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def source() -> FixedSource:
    return FixedSource()


@pytest.fixture
def runtime(told: Told, source: FixedSource) -> Runtime:
    return make_runtime(make_config(), told, sources=[source])


async def test_context_is_placed_behind_the_newest_question(
    runtime: Runtime, told: Told
) -> None:
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    talk >>= upstream_says(OK)
    await (talk << client_gets(OK.chunks[0]))

    assert [p.records for p in told.last.placements] == [("rules/r1",)]
    assert told.last.placements[0].is_new
    assert told.last.outcome == "ok"
    assert told.last.sidecar_mutations == 0


async def test_the_block_stays_where_it_was_in_every_later_request(
    runtime: Runtime, told: Told, source: FixedSource
) -> None:
    later = [*ASK, assistant("9 km"), user("and back?")]
    talk = conversation(runtime)
    talk >>= request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    talk >>= upstream_says(OK)
    talk <<= client_gets(OK.chunks[0])
    talk >>= request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 0))
    talk >>= upstream_says(OK)
    await (talk << client_gets(OK.chunks[0]))

    # The record is on the surface already: asked again, placed once.
    assert len(source.asked) == 2
    assert [v.verdict.verdict for v in told.finished if v.verdict] == [
        "first",
        "extended",
    ]
    assert [p.is_new for p in told.last.placements] == [False]
    assert told.last.compile is not None
    assert [r.reason for r in told.last.compile.records] == ["already-placed"]


async def test_a_retry_of_the_same_request_is_sent_with_the_same_bytes(
    runtime: Runtime, told: Told, source: FixedSource
) -> None:
    for _ in range(3):
        talk = conversation(runtime) >> request(BODY)
        talk <<= upstream_gets(with_block(ASK, 0))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert len(source.asked) == 1
    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "unchanged"


@pytest.mark.parametrize("status", [307, 400, 429, 500, 529])
async def test_what_the_upstream_did_not_accept_is_not_remembered(
    runtime: Runtime, told: Told, source: FixedSource, status: int
) -> None:
    no = Said(status, (b'{"error":{}}',))
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(no) << client_gets(b'{"error":{}}'))
    source.found = ()

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "first"


class BrokenLedger:
    """A ledger whose reads or commits fail, or what it is asked at once."""

    def __init__(self, *, reads: bool = False, commits: bool = False) -> None:
        self.reads, self.commits, self.here = reads, commits, False
        self.held: dict[bytes, tuple[Operation, ...]] = {}

    def read_here(self, keys: Sequence[bytes], known: Any = None) -> None:
        """Say that it is to be waited for."""
        if self.here:
            raise StoreFailed(store="test", operation="read")

    def held_here(self, keys: Sequence[bytes]) -> None:
        """Say so here, too."""

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        if self.reads:
            raise StoreFailed(store="test", operation="read")
        return [self.held.get(key, ()) for key in keys]

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        if self.commits:
            raise StoreFailed(store="test", operation="commit")
        self.held.update(operations)

    async def close(self) -> None:
        self.held.clear()


async def test_a_ledger_that_cannot_be_read_costs_the_context_not_the_request(
    told: Told, source: FixedSource
) -> None:
    ledger = BrokenLedger()
    runtime = make_runtime(make_config(), told, sources=[source], ledger=ledger)
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    ledger.reads = True
    later = [*ASK, assistant("9 km"), user("and back?")]

    talk = conversation(runtime) >> request(anthropic_body(later))
    talk <<= upstream_gets(anthropic_body(later))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.faults == [("recall", "store_failed")]
    verdict = told.last.verdict
    assert verdict is not None
    assert (verdict.verdict, verdict.cause, verdict.owner) == (
        "broken",
        "ledger_lost",
        "sidecar",
    )
    assert told.last.sidecar_mutations == 1


@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_a_fault_of_what_is_asked_at_once_is_counted_and_costs_nothing(
    told: Told, source: FixedSource, on_error: str
) -> None:
    ledger, config = BrokenLedger(), make_config(on_error=on_error)
    runtime = make_runtime(config, told, sources=[source], ledger=ledger)
    talk = conversation(runtime) >> request(BODY) << upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    ledger.here = True
    later = [*ASK, tool_use("t"), tool_result("t", "9 km")]

    talk = conversation(runtime) >> request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.faults == [("recall", "store_failed")]


async def test_a_ledger_that_cannot_be_read_refuses_where_the_route_is_closed(
    told: Told, source: FixedSource
) -> None:
    config = make_config(on_error="closed")
    ledger = BrokenLedger(reads=True)
    runtime = make_runtime(config, told, sources=[source], ledger=ledger)

    await (
        conversation(runtime) >> request(BODY) << client_is_refused("context_refused")
    )

    assert told.faults == [("recall", "store_failed")]
    assert (told.last.outcome, told.last.error) == ("refused", "context_refused")


async def test_a_ledger_that_does_not_take_a_commit_is_counted_and_answered(
    told: Told, source: FixedSource
) -> None:
    ledger = BrokenLedger(commits=True)
    runtime = make_runtime(make_config(), told, sources=[source], ledger=ledger)

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.faults == [("settle", "store_failed")]


async def test_a_full_ledger_keeps_answering(told: Told, source: FixedSource) -> None:
    config = make_config(more="ledger: {max_bytes: 1}")
    runtime = make_runtime(config, told, sources=[source])

    for _ in range(2):
        talk = conversation(runtime) >> request(BODY)
        talk <<= upstream_gets(with_block(ASK, 0))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


class BrokenCheckpoints:
    def find(self, starts: Starts) -> Resumed | None:
        raise RuntimeError("secret")

    def keep(
        self,
        starts: Starts,
        progress: Progress,
        standing: Standing | None = None,
        *,
        resumed: Resumed | None = None,
    ) -> None:
        raise RuntimeError("secret")


class BrokenTracker(Tracker):
    def sight(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("secret")


class BrokenEstimates(Estimates):
    def calibrated(self, model: str, tokens: int) -> int:
        raise RuntimeError("secret")


class OddLedger:
    """A ledger that fails in a way its port does not know."""

    def read_here(self, keys: Sequence[bytes], known: Any = None) -> None:
        """Say that it is to be waited for."""

    def held_here(self, keys: Sequence[bytes]) -> None:
        """Say so here, too."""

    async def read(self, keys: Sequence[bytes]) -> Sequence[tuple[Operation, ...]]:
        raise ZeroDivisionError("secret")

    async def commit(self, operations: Mapping[bytes, tuple[Operation, ...]]) -> None:
        raise ZeroDivisionError("secret")

    async def close(self) -> None:
        pass


class Unrecording(Tracker):
    def record(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("secret")


class Unlearning(Estimates):
    def learn(self, model: str, *, estimated: int, actual: int) -> None:
        raise RuntimeError("secret")


class MaliciousSource(FixedSource):
    """Offers a record that passes for a candidate, but cannot be compiled."""

    async def find(self, query: Query) -> Sequence[Candidate]:
        return [Candidate(source="rules", kind="memory", record_id="r", text=None)]  # type: ignore[arg-type]


FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "admit": ("admit", {"checkpoints": BrokenCheckpoints()}),
    "tracker": ("compile", {"tracker": BrokenTracker(new_id=lambda: "x")}),
    "estimates": ("compile", {"estimates": BrokenEstimates()}),
    "record": ("compile", {"sources": (MaliciousSource(),)}),
    "ledger": ("recall", {"ledger": OddLedger()}),
}


@pytest.mark.parametrize(("where", "parts"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_ours_sends_the_clients_own_bytes_and_is_counted(
    told: Told, source: FixedSource, where: str, parts: dict[str, Any]
) -> None:
    runtime = make_runtime(make_config(), told, **({"sources": (source,)} | parts))

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert (where, "sidecar_fault") in told.faults
    assert (told.last.passthrough == "fault") == (where != "recall")
    assert told.last.outcome == "ok"


@pytest.mark.parametrize(("where", "parts"), FAULTS.values(), ids=FAULTS)
async def test_a_fault_of_ours_refuses_where_the_route_is_closed(
    told: Told, source: FixedSource, where: str, parts: dict[str, Any]
) -> None:
    config = make_config(on_error="closed")
    runtime = make_runtime(config, told, **({"sources": (source,)} | parts))

    talk = conversation(runtime) >> request(BODY)
    await (talk << client_is_refused("context_refused"))

    assert (where, "sidecar_fault") in told.faults
    assert told.last.outcome == "refused"
    assert told.in_flight == 0


async def test_a_fault_in_the_new_context_leaves_the_old_blocks_in_place(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(make_config(), told, sources=[source])
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    parts = parts_of(runtime)
    hostile = make_runtime(make_config(), told, sources=[MaliciousSource()], **parts)
    later = [*ASK, assistant("9 km"), user("and back?")]

    talk = conversation(hostile) >> request(anthropic_body(later))
    talk <<= upstream_gets(with_block(later, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.sidecar_mutations == 0
    assert told.last.passthrough == "fault"


async def test_what_fails_after_the_answer_does_not_fail_the_request(
    told: Told, source: FixedSource
) -> None:
    runtime = make_runtime(
        make_config(), told, sources=[source], estimates=Unlearning()
    )

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.faults == [("settle", "sidecar_fault")]
    assert len(told.finished) == 1
    assert told.last.outcome == "ok"


async def test_what_cannot_be_kept_is_counted_and_the_answer_given(
    told: Told, source: FixedSource
) -> None:
    tracker = Unrecording(new_id=lambda: "c")
    runtime = make_runtime(make_config(), told, sources=[source], tracker=tracker)

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.faults == [("settle", "sidecar_fault")]


@pytest.mark.parametrize(
    "fault", [UpstreamUnreachable(upstream="u"), UpstreamBroken(upstream="u")]
)
async def test_a_failed_upstream_is_told_as_such_once(
    runtime: Runtime, told: Told, fault: UpstreamUnreachable | UpstreamBroken
) -> None:
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(fault) << client_is_refused(fault.code))

    assert len(told.finished) == 1
    assert (told.last.outcome, told.last.status) == ("upstream_error", 502)


async def test_an_answer_that_cannot_be_read_is_relayed_and_told(
    runtime: Runtime, told: Told
) -> None:
    odd = Said(200, (b"\xff\x00", b"not json"))

    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await (talk >> upstream_says(odd) << client_gets(b"\xff\x00not json"))

    assert (told.last.outcome, told.last.usage_status) == ("ok", "absent")


async def test_a_client_that_stops_reading_closes_the_answer(
    runtime: Runtime, told: Told
) -> None:
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(with_block(ASK, 0))
    await talk
    talk.client.leaves_at = 0
    await (talk >> upstream_says(OK) << client_gets(lambda client: not client.chunks))

    assert told.last.outcome == "client_closed"
    assert talk.upstream.replies[0].is_closed


@pytest.mark.parametrize("reads", [True, False])
async def test_a_cancelled_request_is_told_once_and_closes_its_answer(
    runtime: Runtime, told: Told, reads: bool
) -> None:
    talk = conversation(runtime) >> request(BODY)
    await (talk << upstream_gets(with_block(ASK, 0)))
    assert talk.serving is not None
    if reads:
        stuck = asyncio.Event()

        async def wait() -> None:
            await stuck.wait()

        talk.client.is_slow = True
        talk.client.drain = wait  # type: ignore[method-assign]
        await (talk >> upstream_says(OK))
        await until(lambda: talk.client.has_started)
    talk.serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talk.serving

    assert [f.outcome for f in told.finished] == ["client_closed"]
    assert all(reply.is_closed for reply in talk.upstream.replies)
