from dataclasses import replace

from deuz_proxy.sinks.otlp_deltas import Deltas, Point

LABELS = (("route", "chat"),)
NUMBER = Point(LABELS, 1, 10, 2.0)
COUNTS = Point(LABELS, 1, 10, 0.6, (2, 0))


def test_first_picture_tells_all_since_the_start() -> None:
    assert Deltas().since_last("n", [NUMBER]) == [NUMBER]


def test_sum_tells_what_was_added_since_the_last_picture() -> None:
    deltas = Deltas()
    later = [
        replace(NUMBER, taken_ns=20, value=3.0),
        replace(NUMBER, taken_ns=30, value=3.0),
    ]

    told = [deltas.since_last("n", [point])[0] for point in (NUMBER, *later)]

    assert [point.value for point in told] == [2, 1, 0]
    assert [(point.started_ns, point.taken_ns) for point in told] == [
        (1, 10),
        (10, 20),
        (20, 30),
    ]


def test_histogram_tells_what_was_added_in_each_bucket() -> None:
    deltas = Deltas()
    deltas.since_last("h", [COUNTS])

    (point,) = deltas.since_last("h", [replace(COUNTS, value=7.6, counts=(2, 1))])

    assert point.value == 7.0
    assert point.counts == (0, 1)


def test_series_and_metrics_do_not_know_each_other() -> None:
    deltas = Deltas()
    deltas.since_last("n", [NUMBER])
    other = replace(NUMBER, labels=(("route", "other"),))

    assert deltas.since_last("n", [other]) == [other]
    assert deltas.since_last("m", [NUMBER]) == [NUMBER]
