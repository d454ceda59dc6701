"""One spelling for a value, and digests over it.

Rules:
- Canonical JSON: UTF-8, members sorted by name, no spaces; equal values, equal bytes.
- A digest is `sha256:` and lower-case hex.
"""

from hashlib import sha256
from typing import Any

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")


def canonical_json(value: Any) -> bytes:
    """Return the one spelling of a value in JSON."""
    return _encoder.encode(value)


def digest_bytes(payload: bytes) -> str:
    """Return the digest of bytes."""
    return f"sha256:{sha256(payload).hexdigest()}"


def digest_text(text: str) -> str:
    """Return the digest of a text; a lone surrogate is digested, not refused."""
    # Spelt out: a compile comes by here for every record.
    return f"sha256:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
