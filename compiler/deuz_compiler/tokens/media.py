"""What pictures, documents and sealed text cost: never what their encoding looks like.

Rules:
- The length of an encoded picture says nothing of its price; its dimensions do.
- What cannot be told from the first bytes has a flat price.
- Providers price alike pictures differently: by area, or by tiles with a low detail.
"""

import binascii

# Anthropic scales to 1568 px on the long side, which ends near 1600 tokens.
IMAGE_TOKENS = 1600
_PIXELS_PER_TOKEN = 750
# OpenAI fits into a box, shrinks the short side, and counts tiles of what is left.
LOW_DETAIL_TOKENS = 85
_BOX_PIXELS, _SHORT_PIXELS, _TILE_PIXELS, _TILE_TOKENS = 2048, 768, 512, 170
# A square picture of any size from 768 px on: what most screenshots come to.
TILED_TOKENS = LOW_DETAIL_TOKENS + 4 * _TILE_TOKENS
# A page costs 1500 to 3000 tokens; pages of mixed text and pictures are near 50 KB.
PAGE_TOKENS = 2000
_PAGE_BYTES = 50_000
_MAX_PAGES = 100
# A sealed text is encrypted UTF-8 in an envelope of its own; four bytes are a token.
_ENVELOPE_BYTES = 650
_BYTES_PER_TOKEN = 4

_HEAD_CHARACTERS = 65_536  # Enough for the frame header behind a JPEG's metadata.
_SEGMENT = 0xFF
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def image_tokens(width: int, height: int) -> int:
    """Return the price by area; never above the flat one, never nothing."""
    pixels = max(1, width) * max(1, height)
    return min(IMAGE_TOKENS, -(-pixels // _PIXELS_PER_TOKEN))


def tiled_tokens(width: int, height: int) -> int:
    """Return the price by tiles at high detail; pictures shrink, they never grow."""
    long, short = max(1, width, height), max(1, min(width, height))
    if long > _BOX_PIXELS:
        long, short = _BOX_PIXELS, max(1, short * _BOX_PIXELS // long)
    if short > _SHORT_PIXELS:
        long, short = long * _SHORT_PIXELS // short, _SHORT_PIXELS
    tiles = -(-long // _TILE_PIXELS) * -(-short // _TILE_PIXELS)
    return LOW_DETAIL_TOKENS + tiles * _TILE_TOKENS


def document_tokens(size_bytes: int) -> int:
    """Return the price of a paged document of this size."""
    pages = min(_MAX_PAGES, max(1, size_bytes // _PAGE_BYTES))
    return pages * PAGE_TOKENS


def sealed_tokens(size_characters: int) -> int:
    """Return the price of encrypted text that only the provider can read."""
    plain_bytes = max(0, size_characters * 3 // 4 - _ENVELOPE_BYTES)
    return -(-plain_bytes // _BYTES_PER_TOKEN)


def media_tokens(encoded: bytes) -> int:
    """Return the price of base64 data by what its first bytes say it is."""
    head = _decode_head(encoded)
    if head.startswith(b"%PDF"):
        return document_tokens(len(encoded) * 3 // 4)
    size = _image_size(head)
    return image_tokens(*size) if size else IMAGE_TOKENS


def tiled_media_tokens(encoded: bytes, *, detail: str = "") -> int:
    """Return the price of base64 data at a provider that counts tiles."""
    head = _decode_head(encoded)
    if head.startswith(b"%PDF"):
        return document_tokens(len(encoded) * 3 // 4)
    size = _image_size(head)
    if size is None:
        return IMAGE_TOKENS
    return LOW_DETAIL_TOKENS if detail == "low" else tiled_tokens(*size)


def _decode_head(encoded: bytes) -> bytes:
    head = encoded[:_HEAD_CHARACTERS].replace(b"-", b"+").replace(b"_", b"/")
    try:
        return binascii.a2b_base64(head[: len(head) // 4 * 4])
    except binascii.Error:
        return b""


def _image_size(head: bytes) -> tuple[int, int] | None:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _number(head, 16, 4), _number(head, 20, 4)
    if head.startswith(b"GIF8"):
        return _little(head, 6, 2), _little(head, 8, 2)
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(head)
    return _webp_size(head) if head[8:12] == b"WEBP" else None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    """Read the size from any of the three makes: extended, lossless, lossy."""
    make = head[12:16]
    if make == b"VP8X":
        return _little(head, 24, 3) + 1, _little(head, 27, 3) + 1
    if make == b"VP8L":
        packed = _little(head, 21, 4)
        return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    if make == b"VP8 ":
        return _little(head, 26, 2) & 0x3FFF, _little(head, 28, 2) & 0x3FFF
    return None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    """Walk the segments to the frame header, which holds height and width."""
    at = 2
    while at + 9 <= len(head) and head[at] == _SEGMENT:
        if head[at + 1] in _FRAMES:
            return _number(head, at + 7, 2), _number(head, at + 5, 2)
        at += 2 + max(2, _number(head, at + 2, 2))
    return None


def _number(head: bytes, at: int, size: int) -> int:
    return int.from_bytes(head[at : at + size], "big")


def _little(head: bytes, at: int, size: int) -> int:
    return int.from_bytes(head[at : at + size], "little")
