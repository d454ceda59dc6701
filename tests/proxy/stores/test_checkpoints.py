from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Progress,
    Standing,
    chain,
    hash_start,
    lift,
    part_span,
    plain_prefix,
    progress_of,
    project,
    standing_of,
    with_surface,
)
from deuz_proxy.stores.checkpoints import Checkpoints
from deuz_testing.bodies import anthropic_body, user


def body_of(*texts: str) -> bytes:
    return anthropic_body([user(text) for text in texts])


ROOT = b"r" * 16


def keep(store: Checkpoints, body: bytes, root: bytes = ROOT) -> None:
    store.keep(root, body, progress(body, root))


def progress(body: bytes, root: bytes = ROOT) -> Progress:
    envelope = lift("anthropic", body)
    keys = chain(envelope, root=root)
    return progress_of(envelope, keys, plain_prefix(envelope), seed=0)


LONG = "word " * 300


def test_a_body_that_goes_on_finds_where_it_was_understood_up_to() -> None:
    store = Checkpoints()
    keep(store, body_of(LONG))

    found = store.find(ROOT, body_of(LONG, "more"))

    assert found is not None
    known = found.progress.checkpoint
    assert len(known.turns) == 1
    resumed = lift("anthropic", body_of(LONG, "more"), known=known)
    fresh = lift("anthropic", body_of(LONG, "more"))
    assert resumed == fresh


def test_the_longest_checkpoint_wins() -> None:
    store = Checkpoints()
    keep(store, body_of(LONG))
    keep(store, body_of(LONG, LONG))

    found = store.find(ROOT, body_of(LONG, LONG, "more"))

    assert found is not None
    assert len(found.progress.checkpoint.turns) == 2


def test_another_scope_or_another_start_finds_nothing() -> None:
    store = Checkpoints()
    keep(store, body_of(LONG))

    assert store.find(b"o" * 16, body_of(LONG, "more")) is None
    assert store.find(ROOT, body_of("x" + LONG, "more")) is None
    assert store.find(ROOT, b"") is None


def test_short_bodies_are_not_worth_a_checkpoint() -> None:
    store = Checkpoints()

    keep(store, body_of("short"))

    assert len(store) == 0


def test_a_checkpoint_kept_twice_is_kept_once_and_buckets_are_small() -> None:
    store = Checkpoints()
    for number in range(9):
        for _ in range(2):
            keep(store, body_of(LONG, f"fork {number}"))

    assert len(store) == 1
    assert all(len(bucket) == 4 for bucket in store._buckets.values())
    newest = store.find(ROOT, body_of(LONG, "fork 8", "on"))
    assert newest is not None


def test_the_least_recently_used_bucket_goes() -> None:
    store = Checkpoints(max_entries=2)
    keep(store, body_of("a" + LONG))
    keep(store, body_of("b" + LONG))
    store.find(ROOT, body_of("a" + LONG, "more"))

    keep(store, body_of("c" + LONG))

    assert len(store) == 2
    assert store.find(ROOT, body_of("a" + LONG, "more")) is not None
    assert store.find(ROOT, body_of("b" + LONG, "more")) is None


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_what_is_found_is_always_a_start_of_the_body(
    first: bytes, second: bytes
) -> None:
    store = Checkpoints()
    body = body_of(first.hex(), "x")
    keep(store, body)

    for other in (body_of(first.hex(), second.hex()), second, body):
        found = store.find(ROOT, other)
        if found is not None:
            checkpoint = found.progress.checkpoint
            assert hash_start(other, checkpoint.offset, checkpoint.digest)


def grown(count: int, text: str = LONG) -> bytes:
    return body_of(*[f"{text} {number}" for number in range(count)])


def test_of_a_conversation_s_earlier_places_only_the_last_is_kept() -> None:
    store = Checkpoints()
    for count in range(22, 30):
        keep(store, grown(count))

    buckets = [[slot.turns for slot in bucket] for bucket in store._buckets.values()]

    assert sum(map(len, buckets)) < 6
    assert [29, 28] in buckets


def test_what_is_packed_is_found_as_it_was() -> None:
    plain, packed = Checkpoints(), Checkpoints(max_open_turns=0)
    body = grown(3)
    keep(plain, body)
    keep(packed, body)

    found, same = (s.find(ROOT, grown(4)) for s in (packed, plain))

    assert found is not None
    assert same is not None
    assert found.progress == same.progress
    assert found.hasher.digest() == same.hasher.digest()


def test_packed_bytes_are_bounded_and_counted_down() -> None:
    store = Checkpoints(max_open_turns=0, max_bytes=4000)
    for number in range(40):
        keep(store, grown(2, f"{number} {LONG}"))

    assert 0 < store._bytes <= 4000
    assert 0 < len(store) < 40
    held = [s for bucket in store._buckets.values() for s in bucket]
    assert store._bytes == sum(len(slot.packed) for slot in held)


def test_turns_that_are_open_are_counted_down_with_their_buckets() -> None:
    store = Checkpoints(max_entries=2)
    for number in range(9):
        keep(store, grown(2, f"{number} {LONG}"))

    assert store._open_turns == sum(slot.turns for slot in store._open) == 4


def standing(body: bytes) -> Standing:
    envelope = lift("anthropic", body)
    surface = project(envelope, {0: (Append(b"B", (), 1),)}, part_span)
    plain = plain_prefix(envelope)
    shown = with_surface(plain, envelope, surface)
    found = standing_of(envelope, surface, plain, shown, turns=1)
    assert found is not None
    return found


def test_what_stands_is_found_with_where_it_stands() -> None:
    store, body = Checkpoints(), body_of(LONG)
    stands = standing(body)
    store.keep(ROOT, body, progress(body), stands)

    found = store.find(ROOT, body_of(LONG, "more"))

    assert found is not None
    assert found.standing is stands


def test_what_rests_is_to_be_laid_out_anew() -> None:
    store, body = Checkpoints(max_open_turns=0), body_of(LONG)
    store.keep(ROOT, body, progress(body), standing(body))

    found = store.find(ROOT, body_of(LONG, "more"))

    assert found is not None
    assert found.standing is None
