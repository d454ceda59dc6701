"""The scripts hold their sums, whatever is done in whatever order."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deuz_proxy.stores.redis_scripts import COMMIT, DROP, ENTRY_BYTES, READ, REPLACE
from deuz_testing.redis_process import REDIS, VALKEY, running_redis

KEYS = [b"used", b"bytes", b"sizes"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "modest", "touch", "drop", "replace"]),
        st.integers(0, 5),
        st.integers(0, 400),
        st.integers(0, 30),
    ),
    max_size=25,
)


# What a script does is the same over TLS.
@pytest.fixture(
    scope="module",
    params=[pytest.param(REDIS, marks=pytest.mark.needs("redis-server")), VALKEY],
)
def client(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    with running_redis(kind=request.param) as process, process.client() as made:
        yield made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(STEPS)
def test_whatever_happens_the_bounds_hold_and_sums_add_up(
    client: redis.Redis, steps: list[tuple[str, int, int, int]]
) -> None:
    client.flushall()
    now, max_bytes = 1_000.0, 3 * ENTRY_BYTES + 500

    for what, number, length, pause in steps:
        now += pause
        key, sealed = b"k%d" % number, b"x" * length
        if what == "drop":
            held = client.get(b"e:" + key) or b""
            client.eval(DROP, 3, *KEYS, b"e:", key, held)
        elif what == "replace":
            held = client.get(b"e:" + key) or b""
            client.eval(REPLACE, 3, *KEYS, b"e:", key, held, b"y", ENTRY_BYTES)
        else:
            head: list[Any] = [b"e:", now, 50, 3, max_bytes, 60_000, ENTRY_BYTES]
            tail: list[Any] = (
                [1, key, now]
                if what == "touch"
                else [0, key, sealed, int(what == "modest")]
            )
            client.eval(COMMIT, 3, *KEYS, *head, *tail)

        names = client.keys("e:*")
        sizes = client.hgetall("sizes")
        assert isinstance(names, list)
        assert isinstance(sizes, dict)
        assert {name[2:] for name in names} == {*sizes, *client.zrange("used", 0, -1)}
        assert len(names) <= 3
        total = int(client.get("bytes") or 0)
        assert total == sum(int(size) for size in sizes.values()) <= max_bytes


def test_one_read_answers_sums_and_only_what_is_there(client: redis.Redis) -> None:
    client.flushall()
    head: list[Any] = [b"e:", 5.5, 50, 9, 9_999, 60_000, 100, 0]
    client.eval(COMMIT, 3, *KEYS, *head, b"bb", b"held", 0)

    answer = client.eval(READ, 2, *KEYS[:2], b"e:", 2, b"aabbcc")

    assert answer == [1, 104, 1, b"5.5", b"held"]
