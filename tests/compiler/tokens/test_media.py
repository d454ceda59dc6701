import base64
import json

import pytest

from deuz_compiler.tokens.media import (
    IMAGE_TOKENS,
    document_tokens,
    image_tokens,
    media_tokens,
    split_media,
)

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (300).to_bytes(4, "big") + b"\0\0\0\xfa"
GIF = b"GIF89a" + (300).to_bytes(2, "little") + (250).to_bytes(2, "little")
WEBP = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\x2b\x01\0" + b"\xf9\0\0"
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
    "head", [PNG, GIF, WEBP, JPEG], ids=["png", "gif", "webp", "jpeg"]
)
def test_size_is_read_from_the_first_bytes(head: bytes) -> None:
    assert media_tokens(encoded(head)) == 100


@pytest.mark.parametrize(
    "data",
    [
        encoded(b"RIFF\0\0\0\0WAVE"),
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
    "block",
    [
        {"source": {"type": "base64", "media_type": "image/png", "data": ""}},
        {"source": {"data": "", "media_type": "image/png", "type": "base64"}},
    ],
)
def test_media_are_taken_out_wherever_the_marker_stands(
    block: dict[str, object],
) -> None:
    text = json.dumps([block, block]).replace(
        '"data": ""', f'"data" : "{encoded(PNG).decode()}"'
    )

    plain, tokens = split_media(text.encode())

    assert tokens == 200
    assert json.loads(plain) == [block, block]


def test_data_urls_and_audio_are_taken_out() -> None:
    url = b'{"url":"data:image/png;base64,%b","detail":"low"}' % encoded(PNG)
    audio = b'{"input_audio":{"data":"%b","format":"wav"}}' % encoded(b"RIFF")

    assert split_media(url) == (b'{"url":"data:image/png;base64,","detail":"low"}', 100)
    assert split_media(audio) == (b'{"input_audio":{"data":"","format":"wav"}}', 1_600)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"input":{"data":"%b"}}' % (b"A" * 900),
        b'{"type":"base64","data":"%b"}' % (b"words and " * 90),
        b'{"type":"base64","data":"short"}',
        b'{"type":"base64","data":7}',
        b'{"type":"base64","data"',
        b'{"type":"base64","data":["x"]}',
        b"data:image/png;base64,AAAA",
    ],
)
def test_what_the_model_reads_stays_text(raw: bytes) -> None:
    assert split_media(raw) == (raw, 0)
