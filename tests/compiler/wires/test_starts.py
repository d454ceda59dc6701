from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from deuz_compiler.wires import starts as module
from deuz_compiler.wires.scanner import load_scanner
from deuz_compiler.wires.starts import PLACES, Starts, starts_of

ROOT = bytes(range(16))
BODIES = st.builds(
    lambda piece, size: (piece * (size // len(piece) + 1))[:size],
    st.binary(min_size=1, max_size=40),
    st.integers(0, 40_000),
)


def without_scanner(root: bytes, body: bytes) -> Starts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        return starts_of(root, body)


def test_places_are_a_kilobyte_apart_or_an_eighth_of_the_size() -> None:
    assert PLACES[:10] == (512, *range(1024, 10_000, 1024))
    for small, large in pairwise(PLACES[1:]):
        assert large - small == max(1024, 2 ** (small.bit_length() - 1) // 8)
    assert PLACES[-1] == 2**40


@given(BODIES, st.binary(min_size=16, max_size=16))
@example(b"x" * 511, ROOT)
@example(b"x" * 512, ROOT)
@example(b"x" * 1023, ROOT)
@example(b"x" * 1024, ROOT)
@example(b"x" * 16_384, ROOT)
@example(b"x" * 18_431, ROOT)
@example(b"x" * 18_432, ROOT)
@example(b"x" * 300_000, ROOT)
def test_the_scanner_makes_the_digests_that_are_made_without_it(
    body: bytes, root: bytes
) -> None:
    built, plain = starts_of(root, body), without_scanner(root, body)

    assert built == plain
    assert len(built.packed) == 16 * sum(place <= len(body) for place in PLACES)


def test_each_digest_is_of_the_last_one_and_of_what_stands_between() -> None:
    body = b"0123456789" * 150

    starts = starts_of(ROOT, body)

    first = xxh3_128_digest(ROOT + xxh3_128_digest(body[:512]))
    second = xxh3_128_digest(first + xxh3_128_digest(body[512:1024]))
    assert starts.packed == first + second
    assert starts.digest(300) == xxh3_128_digest(ROOT + xxh3_128_digest(body[:300]))
    rest = xxh3_128_digest(body[1024:1100])
    assert starts.digest(1100) == xxh3_128_digest(second + rest)
    assert (starts.key(511), starts.key(512)) == (b"", first)
    assert (starts.key(1023), starts.key(1500)) == (first, second)


@given(BODIES, st.integers(0, 40_000), st.integers(0, 40_000))
def test_a_start_has_one_digest_whatever_stands_behind_it(
    body: bytes, offset: int, changed: int
) -> None:
    offset, changed = offset % (len(body) + 1), changed % (len(body) + 1)
    other = body[:changed] + b"\xff" + body[changed + 1 :]
    one, two = starts_of(ROOT, body), starts_of(ROOT, other)

    is_alike = body[:offset] == other[:offset]

    assert (one.digest(offset) == two.digest(offset)) == is_alike
    assert one.goes_on(offset, two.digest(offset)) == (
        is_alike and 0 < offset < len(body)
    )
    assert starts_of(bytes(16), body).digest(offset) != one.digest(offset)


@given(BODIES, st.integers(0, 40_000))
def test_a_start_has_the_same_digest_without_what_was_built(
    body: bytes, offset: int
) -> None:
    offset %= len(body) + 1
    found = starts_of(ROOT, body).digest(offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        assert starts_of(ROOT, body).digest(offset) == found


def test_a_body_is_looked_up_at_its_last_places_and_at_no_others() -> None:
    starts = starts_of(ROOT, b"x" * 40_000)
    digests = [starts.key(place) for place in PLACES if place <= 40_000]

    assert starts.newest() == tuple(digests[::-1][:16])
    assert len(digests) > 16
    assert starts_of(ROOT, b"x" * 2_000).newest() == tuple(digests[1::-1])
    assert starts_of(ROOT, b"x" * 511).newest() == ()


def test_a_root_of_another_size_is_refused() -> None:
    scanner = load_scanner()
    assert scanner is not None
    with pytest.raises(ValueError, match="starts"):
        scanner.starts(bytes(15), b"")
