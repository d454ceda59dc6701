from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deuz_compiler import (
    Append,
    Progress,
    Resumed,
    Standing,
    chain,
    lift,
    part_span,
    plain_prefix,
    progress_of,
    project,
    standing_of,
    starts_of,
    with_surface,
)
from deuz_proxy.stores.checkpoints import Checkpoints
from deuz_testing.bodies import anthropic_body, user


def body_of(*texts: str) -> bytes:
    return anthropic_body([user(text) for text in texts])


ROOT = b"r" * 16


def find(store: Checkpoints, body: bytes, root: bytes = ROOT) -> Resumed | None:
    return store.find(starts_of(root, body))


def keep(store: Checkpoints, body: bytes) -> None:
    """Keep it as what nothing was found for."""
    store.keep(starts_of(ROOT, body), progress(body))


def send(store: Checkpoints, body: bytes) -> Resumed | None:
    """Do what each request does: find it, then keep it; return what was found."""
    starts = starts_of(ROOT, body)
    found = store.find(starts)
    store.keep(starts, progress(body), resumed=found)
    return found


def progress(body: bytes) -> Progress:
    envelope = lift("anthropic", body)
    keys, prefix = chain(envelope, root=ROOT), plain_prefix(envelope)
    starts = starts_of(ROOT, body)
    return progress_of(envelope, keys, prefix, starts=starts, seed=0)


LONG = "word " * 300
# So long that what is known of it is worth keeping at rest.
LENGTHY = "word " * 2_600


def test_a_body_that_goes_on_finds_where_it_was_understood_up_to() -> None:
    store = Checkpoints()
    keep(store, body_of(LONG))

    found = find(store, body_of(LONG, "more"))

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

    found = find(store, body_of(LONG, LONG, "more"))

    assert found is not None
    assert len(found.progress.checkpoint.turns) == 2


def test_another_scope_or_another_start_finds_nothing() -> None:
    store = Checkpoints()
    keep(store, body_of(LONG))

    assert find(store, body_of(LONG, "more"), b"o" * 16) is None
    assert find(store, body_of("x" + LONG, "more")) is None
    assert find(store, b"") is None


def test_short_bodies_are_not_worth_a_checkpoint() -> None:
    store = Checkpoints()

    keep(store, body_of("short"))

    assert len(store) == 0


def test_a_checkpoint_kept_twice_is_kept_once_and_buckets_are_small() -> None:
    store = Checkpoints()
    for number in range(18):
        for _ in range(2):
            keep(store, body_of(LONG, f"fork {number}"))

    (bucket,) = store._buckets.values()
    assert len(bucket) == 16
    assert len(store._open) == 16
    assert store._open_turns == 2 * 16
    assert find(store, body_of(LONG, "fork 17", "on")) is not None
    assert find(store, body_of(LONG, "fork 1", "on")) is None


def test_many_that_begin_alike_for_long_are_all_found_again() -> None:
    store, rules = Checkpoints(), "rule " * 8_000
    bodies = [body_of(rules, f"{number} {LONG}") for number in range(40)]
    for body in bodies:
        keep(store, body)

    for number in range(40):
        found = find(store, body_of(rules, f"{number} {LONG}", "more"))

        assert found is not None
        assert len(found.progress.checkpoint.turns) == 2


def test_the_least_recently_used_bucket_goes() -> None:
    store = Checkpoints(max_entries=2)
    keep(store, body_of("a" + LONG))
    keep(store, body_of("b" + LONG))
    find(store, body_of("a" + LONG, "more"))

    keep(store, body_of("c" + LONG))

    assert len(store) == 2
    assert find(store, body_of("a" + LONG, "more")) is not None
    assert find(store, body_of("b" + LONG, "more")) is None


@given(st.binary(max_size=3000), st.binary(max_size=3000))
def test_what_is_found_is_always_a_start_of_the_body(
    first: bytes, second: bytes
) -> None:
    store = Checkpoints()
    body = body_of(first.hex(), "x")
    keep(store, body)

    for other in (body_of(first.hex(), second.hex()), second, body):
        found = find(store, other)
        if found is not None:
            offset = found.progress.checkpoint.offset
            assert other[:offset] == body[:offset]
            assert offset < len(other)


def grown(count: int, text: str = LONG) -> bytes:
    return body_of(*[f"{text} {number}" for number in range(count)])


def turns_kept(store: Checkpoints) -> list[int]:
    """Return how many turns there are up to each place that is found."""
    places = [(slot.turns, slot.earlier) for slot in slots_of(store)]
    return sorted(
        turns
        for stands, earlier in places
        for turns in ([stands, earlier.turns] if earlier else [stands])
    )


def test_of_a_conversation_there_is_where_it_stands_and_where_it_stood_before() -> None:
    store = Checkpoints()
    for count in range(1, 30):
        send(store, grown(count))

    assert turns_kept(store) == [28, 29]
    assert (len(store._open), store._open_turns) == (1, 29)


def slots_of(store: Checkpoints) -> set[Any]:
    return {slot for bucket in store._buckets.values() for slot in bucket}


def test_what_rests_is_kept_where_it_stands_alone() -> None:
    store = Checkpoints(max_open_turns=60)
    for count in range(1, 30):
        send(store, grown(count, LENGTHY))
    going_on = turns_kept(store)

    keep(store, body_of(LENGTHY + "of another"))
    store._max_open_turns = 0
    store._shrink()

    assert going_on == [28, 29]
    assert turns_kept(store) == [1, 29]
    assert store._bytes == sum(slot.weight_bytes for slot in slots_of(store))
    assert find(store, grown(30, LENGTHY)) is not None


def test_conversations_that_are_going_on_are_bounded_by_their_number() -> None:
    store = Checkpoints(max_open=2)
    for number in range(5):
        keep(store, grown(2, f"{number} {LENGTHY}"))

    assert (len(store._open), store._open_turns) == (2, 4)
    assert turns_kept(store) == [2] * 5


def test_what_spares_little_reading_is_let_go_of_when_it_rests() -> None:
    store, short = Checkpoints(max_open=1), "word " * 20
    for text, count in ((LONG, 1), (short, 60), (LENGTHY, 60), (LENGTHY, 1)):
        keep(store, grown(count, text))

    assert find(store, grown(61, short)) is None
    assert find(store, grown(61, LENGTHY)) is not None
    assert turns_kept(store) == [1, 60]
    assert len(store) == len(slots_of(store)) == 2


def test_of_a_long_body_even_short_turns_are_kept_at_rest() -> None:
    store, short = Checkpoints(max_open=0), "word " * 20
    for count in (1_800, 3_600):
        keep(store, grown(count, short))

    assert len(grown(1_800, short)) < 262_144 < len(grown(3_600, short))
    assert turns_kept(store) == [3_600]


def test_a_request_that_comes_again_changes_nothing_of_that() -> None:
    store = Checkpoints()
    for count in (5, 6, 7, 7, 7, 8, 8):
        send(store, grown(count))

    assert turns_kept(store) == [7, 8]


def test_two_that_go_on_from_one_place_are_both_kept() -> None:
    store = Checkpoints()
    for count in (5, 6):
        send(store, grown(count))
    start = [f"{LONG} {number}" for number in range(6)]

    for end in ("a", "b"):
        found = send(store, body_of(*start, end))
        assert found is not None
        assert len(found.progress.checkpoint.turns) == 6
    last = send(store, body_of(*start, "a", "on"))

    assert last is not None
    assert len(last.progress.checkpoint.turns) == 7
    # Where both stood before is let go by the first that goes on.
    assert turns_kept(store) == [7, 7, 8]


def test_an_answer_asked_for_again_goes_on_from_where_it_stood_before() -> None:
    store, start = Checkpoints(), [f"{LONG} {number}" for number in range(5)]
    for count in range(1, 6):
        send(store, grown(count))
    send(store, body_of(*start, "asked"))

    for asked in ("again", "once more"):
        body = body_of(*start, asked)
        found = find(store, body)

        assert found is not None
        assert found.progress.checkpoint == progress(grown(5)).checkpoint
        send(store, body)
    assert turns_kept(store) == [5, 6, 6, 6]


class Talks(RuleBasedStateMachine):
    """Histories that go on, end earlier, come again, or begin anew, in small bounds."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Checkpoints(
            max_entries=6, max_open=3, max_open_turns=20, max_bytes=600
        )
        self.histories: list[list[str]] = [[LENGTHY]]

    @rule(which=st.integers(0), left=st.integers(1, 9), more=st.integers(0, 3))
    def send(self, which: int, left: int, more: int) -> None:
        history = self.histories[which % len(self.histories)][:left]
        history += [f"{len(self.histories)} {LONG}"[: 2 + 400 * more]] * more
        self.histories.append(history)
        body = body_of(*history)
        starts = starts_of(ROOT, body)
        found = self.store.find(starts)
        known = found.progress if found else None
        envelope = lift("anthropic", body, known=known.checkpoint if known else None)
        keys = chain(envelope, root=ROOT, known=known.keys if known else ())
        prefix = plain_prefix(envelope, known.shared if known else None)
        now = progress_of(envelope, keys, prefix, starts=starts, seed=0, resumed=found)
        assert now == progress(body)
        self.store.keep(starts, now, resumed=found)

    @rule(number=st.integers(0, 99))
    def begin(self, number: int) -> None:
        self.histories.append([f"{number} {LENGTHY if number % 3 else LONG}"])

    @invariant()
    def all_is_in_its_place_and_counted(self) -> None:
        store = self.store
        places = {
            (slot, key)
            for key, bucket in store._buckets.items()
            for slot in bucket
            if key == slot.key or (slot.earlier and slot.earlier.key == key)
        }
        slots = {slot for slot, _ in places}
        assert sum(map(len, store._buckets.values())) == len(places)
        assert all(slot in store._buckets[slot.key] for slot in slots)
        for slot in slots:
            if slot.earlier:
                assert slot in store._buckets[slot.earlier.key]
        assert set(store._open) == {slot for slot in slots if slot.progress}
        assert store._open_turns == sum(slot.turns for slot in store._open)
        assert store._bytes == sum(slot.weight_bytes for slot in slots) <= 600
        assert len(store._open) <= 3
        assert len(store) <= 6


TestTalks = Talks.TestCase


def test_one_that_goes_on_from_what_was_forgotten_is_kept_like_a_new_one() -> None:
    store = Checkpoints(max_entries=1)
    send(store, grown(3))
    starts = starts_of(ROOT, grown(4))
    found = store.find(starts)
    assert found is not None
    keep(store, body_of("x" + LONG))

    store.keep(starts, progress(grown(4)), resumed=found)
    send(store, grown(5))

    assert turns_kept(store) == [5]


def test_one_that_went_on_meanwhile_is_kept_beside_it() -> None:
    store = Checkpoints()
    send(store, grown(3))
    both = [body_of(*[f"{LONG} {n}" for n in range(3)], end) for end in ("a", "b")]
    found = [find(store, body) for body in both]

    for body, resumed in zip(both, found, strict=True):
        store.keep(starts_of(ROOT, body), progress(body), resumed=resumed)

    assert turns_kept(store) == [3, 4, 4]


def test_what_rests_is_found_as_it_was() -> None:
    plain, resting = Checkpoints(), Checkpoints(max_open=0)
    for store in (plain, resting):
        keep(store, grown(3, LENGTHY))

    same, found = (find(store, grown(4, LENGTHY)) for store in (plain, resting))

    assert found is not None
    assert same is not None
    assert found.progress == same.progress


def test_one_that_goes_on_is_no_longer_counted_as_resting() -> None:
    store = Checkpoints(max_open=1)
    for text in ("a", "b"):
        send(store, grown(3, text + LENGTHY))
    at_rest = store._bytes

    send(store, grown(4, "a" + LENGTHY))

    assert at_rest == store._bytes > 0
    assert find(store, grown(5, "a" + LENGTHY)) is not None
    assert [slot.turns for slot in store._open] == [4]


def test_bytes_at_rest_are_bounded_and_counted_down() -> None:
    store = Checkpoints(max_open=0, max_bytes=1000)
    for number in range(40):
        keep(store, grown(2, f"{number} {LENGTHY}"))

    assert 0 < store._bytes <= 1000
    assert 0 < len(store) < 40
    assert store._bytes == sum(slot.weight_bytes for slot in slots_of(store))


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
    store.keep(starts_of(ROOT, body), progress(body), stands)

    found = find(store, body_of(LONG, "more"))

    assert found is not None
    assert found.standing is stands


def test_what_rests_is_to_be_laid_out_anew() -> None:
    store, body = Checkpoints(max_open=0), body_of(LENGTHY)
    store.keep(starts_of(ROOT, body), progress(body), standing(body))

    found = find(store, body_of(LENGTHY, "more"))

    assert found is not None
    assert found.standing is None
