import base64

import pytest

from deuz_compiler.tokens.media import (
    IMAGE_TOKENS,
    LOW_DETAIL_TOKENS,
    document_tokens,
    image_tokens,
    media_tokens,
    sealed_tokens,
    tiled_media_tokens,
    tiled_tokens,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (300).to_bytes(4, "big") + b"\0\0\0\xfa"
GIF = b"GIF89a" + (300).to_bytes(2, "little") + (250).to_bytes(2, "little")
WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x2b\x01\0" + b"\xf9\0\0"
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L" + b"\0" * 5 + (249 << 14 | 299).to_bytes(4, "little")
LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 10 + b"\x2c\x41\xfa\x00"
JPEG = b"\xff\xd8\xff\xe0\0\x10" + b"\0" * 14 + b"\xff\xc0\0\x11\x08\0\xfa\x01\x2c\x03"


def encoded(head: bytes, size: int = 600) -> bytes:
    return base64.b64encode(head.ljust(size, b"\1"))


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(300, 250, 100), (301, 250, 101), (1, 1, 1), (0, 0, 1), (9_000, 9_000, 1_600)],
)
def test_picture_costs_its_area_up_to_the_flat_price(
    width: int, height: int, tokens: int
) -> None:
    assert image_tokens(width, height) == tokens


@pytest.mark.parametrize(
    "head",
    [PNG, GIF, WEBP, LOSSLESS, LOSSY, JPEG],
    ids=["png", "gif", "webp", "webp-lossless", "webp-lossy", "jpeg"],
)
def test_size_is_read_from_the_first_bytes(head: bytes) -> None:
    assert media_tokens(encoded(head)) == 100


@pytest.mark.parametrize(
    "data",
    [
        encoded(b"RIFF\0\0\0\0WAVE"),
        encoded(b"RIFF\0\0\0\0WEBPXXXX"),
        encoded(b"\xff\xd8\xff\xe0\0\x10"),
        encoded(b"\xff\xd8" + b"\0" * 20),
        b"A",
        b"A*AA" * 2,
        b"=" * 300,
    ],
)
def test_what_cannot_be_told_has_the_flat_price(data: bytes) -> None:
    assert media_tokens(data) == IMAGE_TOKENS


def test_document_costs_by_its_bytes_within_bounds() -> None:
    assert document_tokens(10) == 2_000
    assert document_tokens(200_000) == 8_000
    assert document_tokens(10**9) == 200_000
    assert media_tokens(encoded(b"%PDF-1.7", 100_000)) == 4_000


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (1, 1, 255),
        (512, 512, 255),
        (513, 512, 425),
        (1024, 1024, 765),
        (2048, 4096, 1_105),
        (10_000, 100, 765),
        (99_999, 1, 765),
        (0, 0, 255),
    ],
)
def test_tiled_picture_is_fitted_and_shrunk_before_it_is_counted(
    width: int, height: int, tokens: int
) -> None:
    assert tiled_tokens(width, height) == tiled_tokens(height, width) == tokens


def test_tiled_picture_at_low_detail_has_one_price() -> None:
    assert tiled_media_tokens(encoded(PNG), detail="low") == LOW_DETAIL_TOKENS
    assert tiled_media_tokens(encoded(PNG), detail="high") == tiled_tokens(300, 250)
    assert tiled_media_tokens(encoded(PNG)) == tiled_tokens(300, 250)


def test_tiles_do_not_price_documents_and_what_cannot_be_told() -> None:
    assert tiled_media_tokens(encoded(b"%PDF-1.7", 100_000), detail="low") == 4_000
    assert tiled_media_tokens(encoded(b"RIFF"), detail="low") == IMAGE_TOKENS


def test_sealed_text_costs_its_bytes_without_the_envelope() -> None:
    assert sealed_tokens(0) == sealed_tokens(800) == 0
    assert sealed_tokens(4_000) == (3_000 - 650 + 3) // 4
