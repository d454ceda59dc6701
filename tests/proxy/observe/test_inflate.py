import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.inflate import Decoded

PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstd.compress,
    b"identity": bytes,
    b" GZip ": gzip.compress,
}
BOMBS = {
    b"gzip": gzip.compress(b"\0" * 100_000_000),
    b"br": brotli.compress(b"\0" * 100_000_000, quality=3),
    b"zstd": zstd.compress(b"\0" * 100_000_000),
}


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(max_size=4000), cut=st.integers(1, 50))
def test_any_split_of_an_encoded_answer_is_decoded(
    coding: bytes, data: bytes, cut: int
) -> None:
    packed = PACKERS[coding](data)
    decode = Decoded(coding)

    plain = b"".join(decode(packed[at : at + cut]) for at in range(0, len(packed), cut))

    assert plain == data
    assert not decode.is_blind


def test_without_a_coding_bytes_are_what_they_are_however_many() -> None:
    decode = Decoded(None)
    chunk = b"x" * 20_000_000

    for _ in range(5):
        assert decode(chunk) is chunk
    assert not decode.is_blind


@pytest.mark.parametrize("coding", [b"made-up", b"gzip, br", b""])
def test_an_unknown_coding_is_seen_as_nothing(coding: bytes) -> None:
    decode = Decoded(coding)

    assert (decode(b"abc"), decode.is_blind) == (
        (b"", True) if coding else (b"abc", False)
    )


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_damage_makes_blind_and_raises_nothing(coding: bytes) -> None:
    decode = Decoded(coding)

    assert decode(b"\xff\xfe this is not what it says \x00" * 9) == b""
    assert decode.is_blind
    assert decode(PACKERS[coding](b"late")) == b""


@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_is_bounded_while_it_is_unpacked_and_ends_the_observation(
    coding: bytes,
) -> None:
    decode = Decoded(coding)

    plain = decode(BOMBS[coding])

    # Brotli doubles its buffer, and stops behind the bound.
    assert len(plain) <= 17_000_000
    assert decode.is_blind


def test_a_slow_bomb_is_bounded_in_sum() -> None:
    decode = Decoded(b"gzip")
    packed = gzip.compress(b"\0" * 90_000_000)
    total = sum(
        len(decode(packed[at : at + 1000])) for at in range(0, len(packed), 1000)
    )

    assert decode.is_blind
    assert 64 * 1024 * 1024 < total < 70 * 1024 * 1024


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_bytes_behind_the_end_do_not_raise(coding: bytes) -> None:
    decode = Decoded(coding)

    assert decode(PACKERS[coding](b"abc")) == b"abc"
    decode(b"trailing")
