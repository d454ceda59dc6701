"""What pictures and documents cost: by their size in pixels or bytes, never as prose.

Rules:
- The length of an encoded picture says nothing of its price; its dimensions do.
- What cannot be told from the first bytes has a flat price.
- Only data that a wire marks as media is taken out of a text; a base64 run in prose or
  in a tool's arguments is read by the model and is counted as text.
"""

import binascii

# Anthropic scales to 1568 px on the long side, which ends near 1600 tokens.
IMAGE_TOKENS = 1600
_PIXELS_PER_TOKEN = 750
# A page costs 1500 to 3000 tokens; pages of mixed text and pictures are near 50 KB.
_PAGE_TOKENS = 2000
_PAGE_BYTES = 50_000
_MAX_PAGES = 100

_SHORTEST = 256
_HEAD_CHARACTERS = 65_536  # Enough for the frame header behind a JPEG's metadata.
_NEIGHBOURHOOD = 160
_STARTS = (b'"data"', b";base64,")
_SEGMENT = 0xFF
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})


def image_tokens(width: int, height: int) -> int:
    """Return the price of a picture; never above the flat one, never nothing."""
    pixels = max(1, width) * max(1, height)
    return min(IMAGE_TOKENS, -(-pixels // _PIXELS_PER_TOKEN))


def document_tokens(size_bytes: int) -> int:
    """Return the price of a paged document of this size."""
    pages = min(_MAX_PAGES, max(1, size_bytes // _PAGE_BYTES))
    return pages * _PAGE_TOKENS


def media_tokens(encoded: bytes) -> int:
    """Return the price of base64 data by what its first bytes say it is."""
    head = _decode_head(encoded)
    if head.startswith(b"%PDF"):
        return document_tokens(len(encoded) * 3 // 4)
    size = _image_size(head)
    return image_tokens(*size) if size else IMAGE_TOKENS


def split_media(raw: bytes) -> tuple[bytes, int]:
    """Return the JSON text without its embedded media, and the price of those."""
    found = [place for start in _STARTS for place in _places(raw, start)]
    if not found:
        return raw, 0
    pieces, tokens, position = [], 0, 0
    for start, end in sorted(found):
        pieces.append(raw[position:start])
        tokens += media_tokens(raw[start:end])
        position = end
    pieces.append(raw[position:])
    return b"".join(pieces), tokens


def _places(raw: bytes, marker: bytes) -> list[tuple[int, int]]:
    places = []
    position = 0
    while (at := raw.find(marker, position)) >= 0:
        position = at + len(marker)
        is_url = marker is _STARTS[1]
        start = position if is_url else _string_start(raw, position)
        end = raw.find(b'"', start) if start else -1
        if end - start >= _SHORTEST and _is_media(raw, start, end, is_url=is_url):
            places.append((start, end))
            position = end
    return places


def _string_start(raw: bytes, at: int) -> int:
    """Return where the string behind `"key"` begins, 0 if none does."""
    rest = raw[at : at + 16].lstrip()
    if not rest.startswith(b":") or not rest[1:].lstrip().startswith(b'"'):
        return 0
    return raw.find(b'"', at) + 1


def _is_media(raw: bytes, start: int, end: int, *, is_url: bool) -> bool:
    sample = raw[start : start + _SHORTEST]
    if sample.translate(None, b"+/=_-").isalnum() is False:
        return False
    around = raw[max(0, start - _NEIGHBOURHOOD) : start]
    around += raw[end : end + _NEIGHBOURHOOD]
    # Anthropic says `"type": "base64"` beside it, chat says `"format": "wav"`.
    return is_url or b'"base64"' in around or b'"format"' in around


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
    if head[8:16] == b"WEBPVP8X":
        return _little(head, 24, 3) + 1, _little(head, 27, 3) + 1
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
