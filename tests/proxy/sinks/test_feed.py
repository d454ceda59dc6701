import asyncio
import json

import msgspec
import pytest

from deuz_proxy.observe.events import LedgerUsed
from deuz_proxy.sinks import feed as feed_module
from deuz_proxy.sinks.feed import Feed, Notice, Reader
from deuz_testing.feed_events import agent_session, finished, started
from deuz_testing.waiting import WAIT_SECONDS


def feed_with(count: int, *, requests_kept: int = 500) -> Feed:
    feed = Feed(generation="g1", requests_kept=requests_kept)
    for number in range(1, count + 1):
        feed(finished(f"r{number}"))
    return feed


def subscribed(feed: Feed, after: str | None = None) -> Reader:
    reader = feed.subscribe(after)
    assert reader is not None
    return reader


def drained(reader: Reader) -> list[Notice]:
    notices: list[Notice] = []
    while not notices or notices[-1].name != "status":
        notices.extend(reader.take())
    return notices


def told(notices: list[Notice]) -> list[object]:
    """Ids of the requests told, names of the other notices."""
    return [
        notice.content["request"]["id"]  # type: ignore[index]  # A dict, by contract.
        if notice.name == "request"
        else notice.name
        for notice in notices
    ]


def test_requests_come_newest_first_and_no_more_than_asked_for() -> None:
    feed = feed_with(5)

    listed = feed.requests(3)

    assert [request["id"] for request in listed] == ["r5", "r4", "r3"]


def test_sums_do_not_depend_on_when_somebody_reads_them() -> None:
    read, unread = (Feed(generation="g1", conversations_kept=2) for _ in range(2))
    for _ in range(5):
        for event in agent_session():
            for feed in (read, unread):
                feed(event)
            read.status()
    for number in range(80):
        for feed in (read, unread):
            feed(finished(f"r{number}", conversation=f"c{number % 7}"))
        read.status()

    assert read.status() == unread.status()
    assert [*read.conversations()] == [*unread.conversations()]
    assert read.conversation("c2") == unread.conversation("c2")


def test_list_being_read_is_not_disturbed_by_new_requests() -> None:
    feed = feed_with(3, requests_kept=3)
    listed = feed.requests(3)

    first = next(listed)
    feed(finished("r4"))

    assert [first["id"], *(request["id"] for request in listed)] == ["r3", "r2", "r1"]


def test_request_that_left_the_ring_is_not_found() -> None:
    feed = feed_with(4, requests_kept=3)

    assert feed.request("r1") is None
    assert feed.request("r2") is not None


def test_every_description_of_a_session_is_plain_json() -> None:
    feed = Feed(generation="g1")
    for event in agent_session():
        feed(event)

    for listed in (*feed.requests(500), *feed.conversations(), feed.status()):
        encoded = msgspec.json.encode(listed)
        assert json.loads(encoded).keys() == listed.keys()


def test_manifest_lines_are_told_for_one_request_and_left_out_of_the_list() -> None:
    feed = Feed(generation="g1")
    feed(agent_session()[1])

    in_full = feed.request("r2")

    (listed,) = feed.requests(1)
    assert listed["compile"]["records"] == ()  # type: ignore[index]
    assert in_full is not None
    assert [line["reason"] for line in in_full["compile"]["records"]] == [  # type: ignore[index]
        "mandatory",
        "ranked",
        "over-budget",
    ]


def test_conversation_used_last_comes_first() -> None:
    feed = Feed(generation="g1")
    for number, conversation in enumerate(("c1", "c2", "c1")):
        feed(finished(f"r{number}", conversation=conversation))

    assert [known["id"] for known in feed.conversations()] == ["c1", "c2"]


def test_conversation_unused_for_longest_gives_way() -> None:
    feed = Feed(generation="g1", conversations_kept=2)
    for number, conversation in enumerate(("c1", "c2", "c1", "c3")):
        feed(finished(f"r{number}", conversation=conversation))

    assert [known["id"] for known in feed.conversations()] == ["c3", "c1"]


def test_new_reader_gets_the_status_and_then_what_happens() -> None:
    feed = feed_with(2)
    reader = subscribed(feed)

    at_first = told(drained(reader))
    feed(finished("r3"))

    assert at_first == ["status"]
    assert told(drained(reader)) == ["r3", "status"]


def test_reader_resumes_behind_the_place_it_saw_last() -> None:
    feed = feed_with(2)
    place = feed.last_event_id
    feed(finished("r3"))
    feed(finished("r4"))

    notices = drained(subscribed(feed, after=place))

    assert told(notices) == ["r3", "r4", "status"]
    assert notices[1].id == feed.last_event_id


@pytest.mark.parametrize(
    "place", ["g0.2", "", "nonsense", "g1.-1", "g1.²", "g1." + "9" * 5_000]
)
def test_place_of_another_process_resets_the_reader_and_tells_all_that_is_kept(
    place: str,
) -> None:
    feed = feed_with(2)

    assert told(drained(subscribed(feed, after=place))) == [
        "reset",
        "r1",
        "r2",
        "status",
    ]


def test_place_in_the_future_is_taken_as_now() -> None:
    feed = feed_with(2)

    assert told(drained(subscribed(feed, after="g1.99"))) == ["status"]


def test_reader_that_was_too_slow_is_told_how_many_it_lost() -> None:
    feed = feed_with(0, requests_kept=3)
    reader = subscribed(feed)
    for number in range(1, 6):
        feed(finished(f"r{number}"))

    notices = drained(reader)

    assert told(notices) == ["lost", "r3", "r4", "r5", "status"]
    assert notices[0].content == {"count": 2}
    assert told(drained(reader)) == ["status"]


def test_late_reader_catches_up_in_bounded_steps_without_loss() -> None:
    feed = feed_with(120)
    reader = subscribed(feed, after="g1.0")

    first = reader.take()

    assert len(first) == feed_module.NOTICES_AT_ONCE
    rest = told(drained(reader))
    assert rest == [*(f"r{number}" for number in range(51, 121)), "status"]


def test_conversation_comes_with_its_request() -> None:
    feed = feed_with(0)
    reader = subscribed(feed)
    feed(finished("r1", conversation="c7"))

    notice = drained(reader)[0]

    assert notice.content["conversation"] == next(feed.conversations())


async def test_waiting_reader_wakes_for_a_request() -> None:
    feed = feed_with(0)
    reader = subscribed(feed)
    drained(reader)

    async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(reader.wait())
        await asyncio.sleep(0)
        feed(finished("r1"))

    assert told(drained(reader)) == ["r1", "status"]


async def test_cancelled_wait_loses_nothing() -> None:
    feed = feed_with(0)
    reader = subscribed(feed)
    drained(reader)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await reader.wait()
    feed(finished("r1"))

    assert told(drained(reader)) == ["r1", "status"]


async def test_ledger_events_alone_wake_nobody() -> None:
    feed = feed_with(0)
    reader = subscribed(feed)
    drained(reader)

    feed(LedgerUsed("read", "ok", "memory", 1, 7, 900))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await reader.wait()
    assert feed.status()["ledger"] == {
        "store": "memory",
        "entries": 7,
        "bytes": 900,
        "is_available": True,
    }


async def test_a_store_that_is_left_alone_shows_in_the_status() -> None:
    feed = feed_with(0)

    feed(LedgerUsed("read", "ok", "redis", 1, 7, 900))
    feed(LedgerUsed("load", "open", "redis", 0, 0, 0, is_available=False))
    gone = feed.status()["ledger"]
    feed(LedgerUsed("load", "ok", "redis", 1, 0, 0))

    shown = {"store": "redis", "entries": 7, "bytes": 900}
    assert gone == shown | {"is_available": False}
    assert feed.status()["ledger"] == shown | {"is_available": True}


async def test_closed_reader_stops_waiting_and_frees_its_place() -> None:
    feed = Feed(generation="g1", readers_kept=1)
    reader = subscribed(feed)
    drained(reader)

    assert feed.subscribe() is None
    reader.close()
    reader.close()

    async with asyncio.timeout(WAIT_SECONDS):
        await reader.wait()
    assert reader.is_closed
    assert feed.subscribe() is not None


def test_started_request_is_in_flight_until_it_finished() -> None:
    feed = feed_with(0)
    feed(started("r1"))
    feed(started("r2"))

    feed(finished("r1"))

    assert feed.status()["in_flight"] == 1
