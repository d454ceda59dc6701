"""Take what is no text out of a JSON text, and price it by kind.

Rules:
- Only what a wire marks as media or as sealed is taken out; a base64 run in prose or in
  a tool's arguments is read by the model and is counted as text.
- Keys inside a JSON string have escaped quotes, so a quoted key found in the bytes is a
  real one, wherever it stands.
- Data is cut out before anything is decoded: the cost does not grow with a picture.
- A picture or document that is named by its address has a flat price.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from deuz_compiler.tokens.media import (
    IMAGE_TOKENS,
    LOW_DETAIL_TOKENS,
    PAGE_TOKENS,
    TILED_TOKENS,
    media_tokens,
    sealed_tokens,
    tiled_media_tokens,
)

_SHORTEST = 256
_NEIGHBOURHOOD = 160
_LOW = re.compile(rb'"detail"\s*:\s*"low"')
_REFERRING = re.compile(
    rb'"type"\s*:\s*"(?:image|image_url|input_image|document|file|input_file)"'
)
_FLAT = {
    "image": IMAGE_TOKENS,
    "image_url": TILED_TOKENS,
    "input_image": TILED_TOKENS,
    "document": PAGE_TOKENS,
    "file": PAGE_TOKENS,
    "input_file": PAGE_TOKENS,
}
_HOLDERS = ("source", "image_url", "file")
_ADDRESSES = ("url", "image_url", "file_url", "file_id")
_NAMED = re.compile(
    rb'("(?:url|image_url|file_url|file_id)"\s*:\s*)("[^"\\]*(?:\\.[^"\\]*)*")'
)

Place = tuple[int, int]
Price = Callable[[bytes, int, int], int | None]


def split_media(raw: bytes) -> tuple[bytes, int]:
    """Return the JSON text without media and sealed text, and the price of those."""
    found = [cut for marker, price in _MARKED for cut in _cuts(raw, marker, price)]
    found += _listed_pictures(raw)
    plain, tokens = _without(raw, sorted(found)) if found else (raw, 0)
    if not _REFERRING.search(plain):
        return plain, tokens
    return _without_references(plain, tokens)


def _without(raw: bytes, cuts: list[tuple[int, int, int]]) -> tuple[bytes, int]:
    pieces, tokens, position = [], 0, 0
    for start, end, price in cuts:
        pieces.append(raw[position:start])
        tokens += price
        position = end
    return b"".join([*pieces, raw[position:]]), tokens


def _cuts(raw: bytes, marker: bytes, price: Price) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and price of each string behind the marker that is no text."""
    position = 0
    while (at := raw.find(marker, position)) >= 0:
        position = at + len(marker)
        start = position if marker == _URL else _string_start(raw, position)
        if not start or not _is_encoded(raw[start : start + _SHORTEST]):
            continue
        end = raw.find(b'"', start)
        if end - start < _SHORTEST:
            continue
        tokens = price(raw, start, end)
        if tokens is not None:
            yield start, end, tokens
            position = end


def _string_start(raw: bytes, at: int) -> int:
    """Return where the string behind `"key"` begins, 0 if none does."""
    rest = raw[at : at + 16].lstrip()
    if not rest.startswith(b":") or not rest[1:].lstrip().startswith(b'"'):
        return 0
    return raw.find(b'"', at) + 1


def _is_encoded(sample: bytes) -> bool:
    return sample.translate(None, b"+/=_-").isalnum()


def _data_price(raw: bytes, start: int, end: int) -> int | None:
    around = raw[max(0, start - _NEIGHBOURHOOD) : start]
    around += raw[end : end + _NEIGHBOURHOOD]
    if b'"redacted_thinking"' in around:
        return sealed_tokens(end - start)
    # Anthropic says `"type": "base64"` beside it, chat says `"format": "wav"`, Gemini
    # says which type of media in either spelling.
    is_media = any(word in around for word in _BESIDE_MEDIA)
    return media_tokens(raw[start:end]) if is_media else None


def _url_price(raw: bytes, start: int, end: int) -> int:
    before = raw[max(0, start - _NEIGHBOURHOOD) : start].rpartition(b"{")[2]
    behind = raw[end : end + _NEIGHBOURHOOD].partition(b"}")[0]
    is_low = _LOW.search(before) or _LOW.search(behind)
    return tiled_media_tokens(raw[start:end], detail="low" if is_low else "")


def _sealed_price(raw: bytes, start: int, end: int) -> int:
    return sealed_tokens(end - start)


def _listed_pictures(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and price of each picture in a list of bare ones (Ollama)."""
    for found in _PICTURES.finditer(raw):
        start = found.end()
        while _is_encoded(raw[start : start + _SHORTEST]):
            end = raw.find(b'"', start)
            if end < 0:
                return
            yield start, end, media_tokens(raw[start:end])
            following = _NEXT.match(raw, end)
            if following is None:
                break
            start = following.end()


_PICTURES = re.compile(rb'"images"\s*:\s*\[\s*"')
_NEXT = re.compile(rb'"\s*,\s*"')
_BESIDE_MEDIA = (b'"base64"', b'"format"', b'"mimeType"', b'"mime_type"')
_URL = b";base64,"
_MARKED: tuple[tuple[bytes, Price], ...] = (
    (_URL, _url_price),
    (b'"data"', _data_price),
    (b'"encrypted_content"', _sealed_price),
    # Of a block of thinking: it holds the whole thought, its text only an extract.
    (b'"signature"', _sealed_price),
    (b'"thoughtSignature"', _sealed_price),
    (b'"thought_signature"', _sealed_price),
)


def _without_references(plain: bytes, tokens: int) -> tuple[bytes, int]:
    """Price pictures and documents by address; the address itself is not read."""
    try:
        value = msgspec.json.decode(plain)
    except (msgspec.DecodeError, RecursionError):
        return plain, tokens
    addresses = []
    for kind, is_low, address in _references(value):
        is_low_picture = is_low and _FLAT[kind] == TILED_TOKENS
        tokens += LOW_DETAIL_TOKENS if is_low_picture else _FLAT[kind]
        addresses.append(msgspec.json.encode(address))
    known = frozenset(addresses)
    # One pass, however many there are: a body may be nothing but addresses.
    return _NAMED.sub(lambda m: _unnamed(m, known), plain), tokens


def _unnamed(member: re.Match[bytes], known: frozenset[bytes]) -> bytes:
    return member[1] + b'""' if member[2] in known else member[0]


def _references(value: Any) -> Iterator[tuple[str, bool, str]]:
    """Yield kind, low detail and address of each picture or document, however deep."""
    rest = [value]
    while rest:
        inner = rest.pop()
        if isinstance(inner, list):
            rest += inner
        elif isinstance(inner, dict):
            found = _address(inner)
            if found is None:
                rest += inner.values()
            else:
                yield inner["type"], found[0].get("detail") == "low", found[1]


def _address(block: dict[str, Any]) -> tuple[dict[str, Any], str] | None:
    """Return the object that names a picture or document by address, and that."""
    kind = block.get("type")
    if not isinstance(kind, str) or kind not in _FLAT:
        return None
    holders = [block[k] for k in _HOLDERS if isinstance(block.get(k), dict)]
    for holder in [*holders, block]:
        for name in _ADDRESSES:
            address = holder.get(name)
            if isinstance(address, str) and address and address[:5] != "data:":
                return holder, address
    return None
