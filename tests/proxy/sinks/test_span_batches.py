import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.sinks.otlp_logs import QuietLog
from deuz_proxy.sinks.span_batches import BatchLimits, SpanBatches, batch_limits
from deuz_testing.events import TRACE, finished, started
from deuz_testing.otlp import heard_at_root, text_of
from deuz_testing.waiting import WAIT_SECONDS

SLOW = BatchLimits(delay_seconds=600.0, queued=100, at_once=10)


class Keeping:
    """Keeps the batches; `is_open` holds each one up until it is set."""

    def __init__(self, *, is_through: bool = True) -> None:
        self.batches: list[list[str]] = []
        self.is_through = is_through
        self.is_open = threading.Event()
        self.is_open.set()
        self.began = threading.Event()
        self.ended = threading.Semaphore(0)
        self.is_closed = False
        self.is_given_up = False

    def seal(self, written: Iterable[bytes]) -> bytes:
        return b",".join(written)

    def send(self, body: bytes) -> bool:
        self.began.set()
        self.is_open.wait(WAIT_SECONDS)
        self.batches.append(body.decode().split(","))
        self.ended.release()
        return self.is_through

    def give_up(self) -> None:
        self.is_given_up = True
        self.is_open.set()

    def close(self) -> None:
        self.is_closed = True


def request_id(event: RequestFinished) -> bytes:
    return event.request_id.encode()


def batches(
    to: Keeping,
    limits: BatchLimits = SLOW,
    write: Callable[[RequestFinished], bytes] = request_id,
) -> SpanBatches:
    return SpanBatches(write, to.seal, to, limits, QuietLog(lambda: 0.0))


def tell(sink: SpanBatches, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        sink(finished(request_id=str(number)))


def test_full_batch_goes_at_once_and_the_rest_waits() -> None:
    kept = Keeping()
    sink = batches(kept)

    tell(sink, 25)
    assert all(kept.ended.acquire(timeout=WAIT_SECONDS) for _ in range(2))

    assert [len(batch) for batch in kept.batches] == [10, 10]
    sink.close()
    assert [len(batch) for batch in kept.batches] == [10, 10, 5]
    assert [name for batch in kept.batches for name in batch] == [
        str(number) for number in range(25)
    ]
    assert (sink.offered, sink.delivered, sink.failed) == (25, 25, 0)
    assert kept.is_closed


def test_few_requests_go_after_the_delay() -> None:
    kept = Keeping()
    sink = batches(kept, BatchLimits(delay_seconds=0.01, queued=100, at_once=10))

    tell(sink, 1)

    assert kept.ended.acquire(timeout=WAIT_SECONDS)
    assert kept.batches == [["0"]]
    sink.close()


def test_full_queue_loses_the_oldest_and_says_so() -> None:
    kept = Keeping()
    kept.is_open.clear()
    sink = batches(kept, BatchLimits(delay_seconds=600.0, queued=5, at_once=1))
    with heard_at_root() as heard:
        tell(sink, 1)
        assert kept.began.wait(WAIT_SECONDS)
        tell(sink, 8, first=1)
        kept.is_open.set()
        sink.close()

    sent = [name for batch in kept.batches for name in batch]
    assert sent == ["0", "4", "5", "6", "7", "8"]
    assert (sink.offered, sink.delivered) == (9, 6)
    assert "traces were not sent: queue_full" in text_of(heard)


def test_batch_that_did_not_get_through_has_failed() -> None:
    sink = batches(Keeping(is_through=False))

    tell(sink, 3)
    sink.close()

    assert (sink.offered, sink.delivered, sink.failed) == (3, 0, 3)


def test_request_that_cannot_be_written_has_failed_alone() -> None:
    kept = Keeping()

    def write(event: RequestFinished) -> bytes:
        if event.request_id == "1":
            raise ValueError("CANARY")
        return request_id(event)

    sink = batches(kept, write=write)
    with heard_at_root() as heard:
        tell(sink, 3)
        sink.close()

    assert kept.batches == [["0", "2"]]
    assert (sink.delivered, sink.failed) == (2, 1)
    assert "ValueError" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_batch_that_cannot_be_sealed_is_not_the_last() -> None:
    kept = Keeping()

    def seal(written: Iterable[bytes]) -> bytes:
        if b"0" in written:
            raise ValueError("CANARY")
        return kept.seal(written)

    limits = BatchLimits(delay_seconds=600.0, queued=100, at_once=1)
    sink = SpanBatches(request_id, seal, kept, limits, QuietLog(lambda: 0.0))
    with heard_at_root() as heard:
        tell(sink, 2)
        sink.close()

    assert kept.batches == [["1"]]
    assert (sink.delivered, sink.failed) == (1, 1)
    assert "ValueError" in text_of(heard)
    assert "CANARY" not in text_of(heard)


def test_batch_of_which_nothing_could_be_written_is_not_sent() -> None:
    kept = Keeping()
    sink = batches(kept, write=lambda _: b"")

    tell(sink, 3)
    sink.close()

    assert kept.batches == []
    assert sink.failed == 3


def test_sending_thread_writes_the_spans_of_a_few_requests_only() -> None:
    """One that writes them all takes the interpreter from every request meanwhile."""
    writers: list[int] = []

    def write(event: RequestFinished) -> bytes:
        writers.append(threading.get_ident())
        return request_id(event)

    sink = batches(Keeping(), BatchLimits(600.0, queued=5_000, at_once=5_000), write)

    tell(sink, 1_003)
    assert set(writers) == {threading.get_ident()}
    assert len(writers) == 1_000
    sink.close()

    assert len(writers) == sink.delivered == 1_003


def test_given_up_sends_nothing_more() -> None:
    kept = Keeping()
    kept.is_open.clear()
    sink = batches(kept)
    tell(sink, 25)
    assert kept.began.wait(WAIT_SECONDS)

    sink.give_up()
    sink.close()

    assert len(kept.batches) == 1
    assert kept.is_given_up


@pytest.mark.parametrize("trace", [None, replace(TRACE, is_sampled=False)])
def test_unsampled_request_is_not_offered(trace: Any) -> None:
    kept = Keeping()
    sink = batches(kept)

    sink(started())
    sink(finished(trace=trace))
    sink.close()

    assert sink.offered == 0
    assert kept.batches == []


@pytest.mark.parametrize(
    ("environment", "limits"),
    [
        ({}, BatchLimits(5.0, 2048, 512)),
        ({"OTEL_BSP_SCHEDULE_DELAY": "20"}, BatchLimits(0.02, 2048, 512)),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "100"}, BatchLimits(5.0, 100, 100)),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "9999"}, BatchLimits(5.0, 2048, 2048)),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "nonsense"}, BatchLimits(5.0, 2048, 512)),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, BatchLimits(5.0, 2048, 512)),
    ],
)
def test_environment_sets_the_limits(
    environment: dict[str, str], limits: BatchLimits
) -> None:
    assert batch_limits(environment) == limits
