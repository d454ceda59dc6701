"""Decoded copies: of answers by the chunk, of requests' bodies as a whole."""

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import Callable, Sequence

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.inflate import (
    Decoded,
    Undecodable,
    can_decode,
    content_codings,
    decode_body,
)
from deuz_proxy.observe.zstandard import zstd


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"br": brotli.compress,
    b"zstd": zstd.compress,
}
BOMBS = {
    b"gzip": gzip.compress(b"\0" * 100_000_000),
    b"br": brotli.compress(b"\0" * 100_000_000, quality=3),
    b"zstd": zstd.compress(b"\0" * 100_000_000),
}
LIMIT_BYTES = 1_000_000


def decoded(body: bytes, *codings: bytes, limit_bytes: int = LIMIT_BYTES) -> bytes:
    return asyncio.run(decode_body(body, codings, limit_bytes=limit_bytes))


def why_not(body: bytes, *codings: bytes) -> str:
    with pytest.raises(Undecodable) as caught:
        decoded(body, *codings)
    return caught.value.reason


@pytest.mark.parametrize(
    ("values", "codings"),
    [
        ((), ()),
        ((b"identity",), ()),
        ((b" GZip ",), (b"gzip",)),
        ((b"gzip, br",), (b"gzip", b"br")),
        ((b"gzip", b"identity,BR,"), (b"gzip", b"br")),
    ],
)
def test_codings_are_named_in_the_order_in_which_they_were_applied(
    values: Sequence[bytes], codings: Sequence[bytes]
) -> None:
    lines = [(b"Content-Encoding", value) for value in values]

    assert content_codings([(b"content-type", b"gzip"), *lines]) == codings


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("length", [0, 1, 300_000, LIMIT_BYTES])
def test_a_whole_body_is_decoded_up_to_the_limit(coding: bytes, length: int) -> None:
    data = (b"%d," * 250_000 % tuple(range(250_000)))[:length]

    assert decoded(PACKERS[coding](data), coding) == data


@pytest.mark.parametrize("data", [b"", b"abc", b"x" * 300_000])
def test_deflate_is_read_in_both_forms_that_are_sent(data: bytes) -> None:
    assert decoded(raw_deflate(data), b"deflate") == data
    assert Decoded([b"deflate"])(raw_deflate(data)) == data


def test_stacked_codings_are_undone_from_the_last_to_the_first() -> None:
    packed = zstd.compress(brotli.compress(gzip.compress(b"abc" * 1000)))
    codings = (b"gzip", b"br", b"zstd")

    assert decoded(packed, *codings) == b"abc" * 1000
    assert Decoded(codings)(packed) == b"abc" * 1000


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_members_that_follow_each_other_are_one_body(coding: bytes) -> None:
    parts = [b"one", b"", b"two" * 100_000, b"three"]
    packed = b"".join(PACKERS[coding](part) for part in parts)

    assert decoded(packed, coding) == b"".join(parts)
    assert Decoded([coding])(packed) == b"".join(parts)


@pytest.mark.parametrize("coding", PACKERS)
def test_a_body_that_is_cut_anywhere_is_damaged(coding: bytes) -> None:
    packed = PACKERS[coding](b"some text, and more of it")

    for end in range(1, len(packed)):
        assert why_not(packed[:end], coding) == "damaged_encoding"


@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("more", [b"\0", b"more", b"x" * 400_000])
def test_a_body_with_bytes_behind_its_end_is_damaged(
    coding: bytes, more: bytes
) -> None:
    assert why_not(PACKERS[coding](b"abc") + more, coding) == "damaged_encoding"


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(min_size=1, max_size=300))
def test_garbage_is_damaged_or_decoded_and_nothing_else_happens(
    coding: bytes, data: bytes
) -> None:
    with contextlib.suppress(Undecodable):
        assert len(decoded(data, coding)) <= LIMIT_BYTES


def test_what_is_not_known_or_too_often_applied_is_not_decoded() -> None:
    assert why_not(b"abc", b"made-up") == "unknown_encoding"
    assert why_not(b"abc", *[b"gzip"] * 5) == "unknown_encoding"
    assert not can_decode([b"br"] * 5)
    assert can_decode([b"br"] * 4)


@pytest.mark.parametrize("coding", BOMBS)
def test_a_body_over_the_limit_is_not_decoded_any_further(coding: bytes) -> None:
    assert why_not(BOMBS[coding], coding) == "decoded_too_large"


def test_a_bomb_within_another_coding_is_bounded_as_well() -> None:
    packed = gzip.compress(BOMBS[b"gzip"])

    assert why_not(packed, b"gzip", b"gzip") == "decoded_too_large"
    assert why_not(BOMBS[b"br"], b"gzip", b"br") in {
        "damaged_encoding",
        "decoded_too_large",
    }


def test_a_window_beyond_what_the_coding_allows_is_not_granted() -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 26})
    packed = packer.compress(b"abc" * 100_000) + packer.flush()

    assert why_not(packed, b"zstd") == "damaged_encoding"


async def test_others_have_their_turn_while_a_long_body_is_decoded() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    packed = gzip.compress(b"\0" * 20_000_000)
    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count())
        await decode_body(packed, [b"gzip"], limit_bytes=20_000_000)
        counting.cancel()

    assert turns >= 15


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(max_size=4000), cut=st.integers(1, 50))
def test_any_split_of_an_encoded_answer_is_decoded(
    coding: bytes, data: bytes, cut: int
) -> None:
    packed = PACKERS[coding](data)
    decode = Decoded([coding])

    plain = b"".join(decode(packed[at : at + cut]) for at in range(0, len(packed), cut))

    assert plain == data
    assert not decode.is_blind


def test_without_a_coding_bytes_are_what_they_are_however_many() -> None:
    decode = Decoded()
    chunk = b"x" * 20_000_000

    for _ in range(5):
        assert decode(chunk) is chunk
    assert not decode.is_blind


def test_an_unknown_coding_is_seen_as_nothing() -> None:
    decode = Decoded([b"gzip", b"made-up"])

    assert (decode(b"abc"), decode.is_blind) == (b"", True)


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br", b"zstd"])
def test_damage_makes_blind_and_raises_nothing(coding: bytes) -> None:
    decode = Decoded([coding])

    assert decode(b"\xff\xfe this is not what it says \x00" * 9) == b""
    assert decode.is_blind
    assert decode(PACKERS[coding](b"late")) == b""


@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_is_bounded_while_it_is_unpacked_and_ends_the_observation(
    coding: bytes,
) -> None:
    decode = Decoded([coding])

    plain = decode(BOMBS[coding])

    # Brotli doubles its buffer, and stops behind the bound.
    assert len(plain) <= 17_000_000
    assert decode.is_blind


def test_a_slow_bomb_is_bounded_in_sum() -> None:
    decode = Decoded([b"gzip"])
    packed = gzip.compress(b"\0" * 90_000_000)
    total = sum(
        len(decode(packed[at : at + 1000])) for at in range(0, len(packed), 1000)
    )

    assert decode.is_blind
    assert 64 * 1024 * 1024 < total < 70 * 1024 * 1024


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_bytes_behind_the_end_do_not_raise(coding: bytes) -> None:
    decode = Decoded([coding])

    assert decode(PACKERS[coding](b"abc")) == b"abc"
    decode(b"trailing")
