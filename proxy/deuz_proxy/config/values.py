"""Single values of a config that have a form of their own, checked as they are read.

Rules:
- A check raises `ValueError` with what is wrong and what is allowed, never the value:
  it may have come from a secret.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, PlainSerializer

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_KEY_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HIGHEST_PORT = 65_535
_CLOCK_OR_DICE = (
    r"now|utcnow|today|date|time|datetime|timestamp|epoch|unix_?time|"
    r"(?:current|today'?s)[ _-]?(?:date|time|datetime|timestamp|day)|"
    r"uuid\d?|guid|random(?:[ _-]\w+)?|rand|randint|nonce"
)
# The template spellings in use: {{now}}, {now:%H}, {% now %}, ${now}, $(date), <<now>>.
# `{ date: 1 }` is code, not a placeholder.
_FILTER = r"\s*(?:\([^()\n]*\))?\s*(?:\|[^{}\n]{0,60}|[:.+-][^\s{}]{1,60})?\s*-?"
_PLACEHOLDER = re.compile(
    rf"\$?\{{\{{?-?\s*(?:{_CLOCK_OR_DICE}){_FILTER}\}}"
    rf"|<<\s*(?:{_CLOCK_OR_DICE})\s*>>"
    rf"|\{{%-?\s*(?:{_CLOCK_OR_DICE})\b[^%{{}}\n]{{0,60}}%\}}"
    r"|\$\(\s*(?:date|uuidgen)\b[^)\n]{0,60}\)",
    re.IGNORECASE,
)


def split_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[v6]:port`.

    Raises:
        ValueError: the text is not such an address.
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_bare_v6 = ":" in host and bare is host
    if not colon or not bare or is_bare_v6 or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ValueError("is not an address (allowed: HOST:PORT, [IPV6]:PORT)")
    if int(port) > _HIGHEST_PORT:
        raise ValueError(f"names a port out of range (allowed: 0 to {_HIGHEST_PORT})")
    return bare, int(port)


def path_below(folder: object, path: Path) -> Path:
    """Return where a path leads that starts at a folder, or at a user's home.

    Raises:
        ValueError: the user that it names has none.
    """
    try:
        return Path(str(folder), path.expanduser())
    except RuntimeError as fault:
        raise ValueError("names a home that is not known (allowed: a path)") from fault


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `; did you mean X?` when one of the known words is close, or nothing."""
    # Only a mistake pays for it.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _check_address(text: str) -> str:
    split_address(text)
    return text


def _check_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "is not a name (allowed: 1 to 64 letters, digits, and _ . - inside)"
        )
    return text


def _check_header(text: str) -> str:
    if not _HEADER.fullmatch(text):
        raise ValueError("is not a header name (allowed: letters, digits, and -)")
    return text.lower()


def _check_url(text: str) -> str:
    try:
        url = urlsplit(text)
        is_whole = url.scheme in ("http", "https") and bool(url.hostname)
        has_port = url.port is None or url.port > 0
    except ValueError:
        is_whole = has_port = False
    if not is_whole or not has_port or re.search(r"[\s\\]", text):
        raise ValueError("is not a URL (allowed: http://HOST…, https://HOST…)")
    _check_plain_url(urlsplit(text))
    return text.rstrip("/")


def _check_plain_url(url: SplitResult) -> None:
    if url.username is not None or url.password is not None:
        raise ValueError("holds a credential; it belongs in a header")
    if url.query or url.fragment:
        raise ValueError("has a query or a fragment (allowed: scheme, host, path)")


def _check_key_digest(text: str) -> str:
    if not _KEY_DIGEST.fullmatch(text):
        raise ValueError(
            "is not a key digest (allowed: sha256: and 64 lower-case hex digits)"
        )
    return text


def _check_path_rule(text: str) -> str:
    if not text.startswith("/") or "*" in text[:-1] or re.search(r"[\s?#]", text):
        raise ValueError(
            "is not a path rule (allowed: /a/path, or /a/prefix* with one * at the end)"
        )
    return text


def _check_lasting_text(text: str) -> str:
    """Refuse text that would change by itself: it voids the cache behind it."""
    if not text.strip():
        raise ValueError("is blank (allowed: text)")
    if _PLACEHOLDER.search(text):
        raise ValueError(
            "holds a placeholder for time or chance, which is never filled in and "
            "would change the prefix (allowed: fixed text)"
        )
    return text


Address = Annotated[str, AfterValidator(_check_address)]
Name = Annotated[str, AfterValidator(_check_name)]
HeaderName = Annotated[str, AfterValidator(_check_header)]
Url = Annotated[str, AfterValidator(_check_url)]
KeyDigest = Annotated[str, AfterValidator(_check_key_digest)]
PathRule = Annotated[str, AfterValidator(_check_path_rule)]
LastingText = Annotated[
    str, Field(max_length=65_536), AfterValidator(_check_lasting_text)
]
# Decimal, not float: 0.29 of 100 tokens is 29, and sums of shares are exact.
Ratio = Annotated[Decimal, Field(ge=0, le=1), PlainSerializer(float, when_used="json")]
Tokens = Annotated[int, Field(ge=0, le=1_000_000)]
