import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import Append, Bare, Fold, Operation, PlacedRecord, Prune
from deuz_proxy.stores.entries import BARE, open_entry, reseal_entry, seal_entry

KEY = b"k" * 24
TEXTS = st.binary(max_size=200)
RECORDS = st.builds(PlacedRecord, st.text(), st.text(), st.text(), st.text(), st.text())
TOKENS = st.integers(0, 1 << 40)
FORMS = st.sampled_from(["turn", "part"])
OPERATIONS = st.lists(
    st.one_of(
        st.builds(
            Append, TEXTS, st.lists(RECORDS).map(tuple), TOKENS, FORMS, st.booleans()
        ),
        st.builds(Fold, st.integers(1, 5_000), TEXTS, TOKENS, FORMS),
        st.builds(
            Prune, st.lists(st.tuples(st.integers(0, 99), TEXTS), max_size=3).map(tuple)
        ),
        st.builds(Bare, st.booleans()),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@given(OPERATIONS)
def test_what_is_sealed_comes_back_equal_and_has_the_same_bytes_again(
    operations: tuple[Operation, ...],
) -> None:
    sealed = seal_entry(KEY, operations)

    opened = open_entry(KEY, sealed)

    assert opened == operations
    assert seal_entry(KEY, opened) == sealed


@given(OPERATIONS, st.data())
def test_one_byte_of_damage_makes_it_no_entry(
    operations: tuple[Operation, ...], data: st.DataObject
) -> None:
    sealed = bytearray(seal_entry(KEY, operations))
    at = data.draw(st.integers(0, len(sealed) - 1))
    sealed[at] ^= data.draw(st.integers(1, 255))

    assert open_entry(KEY, bytes(sealed)) is None


@given(st.binary(max_size=100))
def test_noise_is_no_entry(noise: bytes) -> None:
    assert open_entry(KEY, noise) is None


def test_an_entry_at_another_key_is_none() -> None:
    assert open_entry(b"o" * 24, seal_entry(KEY, BARE)) is None


def test_operations_of_a_later_version_are_no_entry() -> None:
    import msgspec
    import xxhash

    payload = msgspec.msgpack.encode([{"type": "tail-copy"}])
    sealed = b"\x01" + xxhash.xxh3_64_digest(KEY + payload) + payload

    assert open_entry(KEY, sealed) is None


@pytest.mark.parametrize(
    "change",
    [lambda held: held, tuple, lambda held: (Bare(),)],
    ids=["same", "equal", "made anew"],
)
def test_what_does_not_change_is_not_sealed_anew(change: object) -> None:
    assert reseal_entry(KEY, seal_entry(KEY, BARE), change=change) is None  # type: ignore[arg-type]  # Any callable.


def test_a_changed_entry_tells_how_many_operations_are_other_ones() -> None:
    held = (Append(b"a", (), 1), Bare(), Append(b"b", (), 1))

    resealed = reseal_entry(
        KEY, seal_entry(KEY, held), change=lambda h: (Bare(), h[1], Bare())
    )

    assert resealed == (seal_entry(KEY, (Bare(), Bare(), Bare())), 2)


def test_what_is_damaged_is_not_changed() -> None:
    assert reseal_entry(KEY, b"noise", change=lambda _: BARE) is None
