r"""How many tokens a text is likely to have, without a vocabulary.

Rules:
- An estimate never fails, never reads a clock and never rejects a request.
- Bytes are counted by class at C speed; no token and no character is visited in Python.
- Sums are whole thousandths: no floats. Blank is not free, empty is.
- Of a long text, evenly spread samples are counted.
- JSON text is counted as what it says: `\n` is a line end, `\u4f60` one character, and
  embedded media are priced by kind.
"""

from collections.abc import Callable, Sequence
from operator import mul

from deuz_compiler.tokens.embedded import split_media
from deuz_compiler.tokens.weights import CURRENT, Weights

# Above this, four samples in fifteen are counted: a 1 MB text in 3 instead of 11 ms.
_COUNTED_BYTES = 65_536
_SAMPLE_BYTES = 4_096
_STRIDE_BYTES = 15_013  # Prime: does not beat with anything that repeats in a text.
_THOUSAND = 1000


def _class_of(byte: int) -> str:
    """Return the letter that stands for a byte's class in the reduced text."""
    for first, letter in _CLASSES:
        if byte >= first:
            return letter
    return "."


# First byte of each class, highest first; a lead byte tells the script in UTF-8.
_CLASSES = (
    (0xF0, "e"),
    (0xEE, "f"),
    (0xEA, "o"),
    (0xE4, "z"),
    (0xE3, "k"),
    (0xE2, "s"),
    (0xE1, "l"),
    (0xE0, "d"),
    (0xD5, "r"),
    (0xD0, "c"),
    (0xCD, "g"),
    (0xC3, "l"),
    (0x7F, "s"),
    (ord("{"), "."),
    (ord("a"), "a"),
    (ord("["), "."),
    (ord("A"), "A"),
    (ord(":"), "."),
    (ord("0"), "0"),
    (ord("!"), "."),
    (ord(" "), " "),
    (0x0E, "."),
    (0x0D, "n"),
    (0x0B, "."),
    (0x0A, "n"),
    (0x09, " "),
)
_CLASS = bytes(ord(_class_of(byte)) for byte in range(256))
_LETTER = bytes(0x61 if _class_of(byte) in "aAl" else 0x20 for byte in range(256))
_DIGIT = bytes(0x30 if _class_of(byte) == "0" else 0x20 for byte in range(256))
_CONTINUATION = bytes(range(0x80, 0xC0))
_FOREIGN = tuple(b"s,l,g,c, c,r, r,d,k,z,o, o,f,e".split(b","))
_ESCAPES = ((b"\\n", b"\n"), (b'\\"', b'"'), (b"\\t", b"\t"), (b"\\\\", b"\\"))


def estimate_text(text: str, weights: Weights = CURRENT) -> int:
    """Return the likely number of tokens of a plain text."""
    raw = text.encode("utf-8", "replace")
    sample = _sample_of(raw)
    return _scaled(thousandths_of(sample, weights), part=len(sample), whole=len(raw))


def estimate_bytes(raw: bytes, weights: Weights = CURRENT) -> int:
    """Return the likely number of tokens of a JSON text, media by kind."""
    plain, media_tokens = split_media(raw)
    sample = _sample_of(plain)
    cost = thousandths_of(_unescaped(sample), weights)
    return media_tokens + _scaled(cost, part=len(sample), whole=len(plain))


def estimate_pieces(
    pieces: Sequence[bytes], cost_piece: Callable[[bytes], int]
) -> int | None:
    """Return the likely number of tokens of what the pieces of a text are together.

    Each but the first begins with a mark behind a line end: then no trait reaches from
    one into the next, and they cost as much as the whole. None for a text so long that
    samples of it are counted.
    """
    whole = sum(map(len, pieces))
    if whole > _COUNTED_BYTES:
        return None
    return _scaled(sum(map(cost_piece, pieces)), part=whole, whole=whole)


def traits_of(text: bytes) -> tuple[int, ...]:
    """Return how often each trait of `Weights` occurs in a UTF-8 text.

    An ASCII text has only the traits before `symbol`. A pair counts without overlap:
    five marks are two `marks`.
    """
    classes = text.translate(_CLASS, _CONTINUATION)
    letters = text.translate(_LETTER, _CONTINUATION)
    digits = text.translate(_DIGIT, _CONTINUATION)
    plain = (
        letters.count(b" a") + letters.startswith(b"a"),
        letters.count(b"aaaa"),
        classes.count(b"A"),
        classes.count(b"aA"),
        classes.count(b"AA"),
        digits.count(b"0"),
        digits.count(b" 0") + digits.startswith(b"0"),
        classes.count(b"."),
        classes.count(b".."),
        classes.count(b" "),
        classes.count(b"n"),
        classes.count(b" ."),
    )
    return plain if text.isascii() else plain + _foreign_traits(classes)


def _foreign_traits(classes: bytes) -> tuple[int, ...]:
    return tuple(map(classes.count, _FOREIGN))


def thousandths_of(text: bytes, weights: Weights) -> int:
    """Return what a text in UTF-8 costs, in thousandths: all of it is counted."""
    return sum(map(mul, traits_of(text), weights))


def _sample_of(raw: bytes) -> bytes:
    if len(raw) <= _COUNTED_BYTES:
        return raw
    starts = range(0, len(raw), _STRIDE_BYTES)
    return b"".join(raw[start : start + _SAMPLE_BYTES] for start in starts)


def _scaled(thousandths: int, *, part: int, whole: int) -> int:
    if part == 0:
        return 0
    return max(1, -(-thousandths * whole // (part * _THOUSAND)))


def _unescaped(raw: bytes) -> bytes:
    """Return the JSON text with its commonest escapes resolved, broken ones kept."""
    if b"\\" not in raw:
        return raw
    if b"\\u" in raw:
        raw = _without_codes(raw)
    for escape, character in _ESCAPES:
        raw = raw.replace(escape, character)
    return raw


def _without_codes(raw: bytes) -> bytes:
    r"""Resolve `\uXXXX`, pairs of halves too, without a loop over them."""
    codes = raw.decode("utf-8", "replace").encode("raw_unicode_escape")
    text = codes.decode("raw_unicode_escape", "replace")
    units = text.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace").encode()
