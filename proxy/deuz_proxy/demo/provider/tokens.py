"""The provider's tokenizer: four bytes are one token.

Rules:
- A block is its UTF-8 text, filled up to whole tokens; so tokens of a prompt are the
  sum over its blocks, and usage moves with content.
- What starts a turn is one header block of text in front of its first block.
- Media count as a fixed number of tokens, whatever their size, but by their content.
"""

import hashlib
from dataclasses import dataclass

BYTES_PER_TOKEN = 4
MEDIA_TOKENS = 1_000  # The order of what providers charge for one picture.


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the rendered prompt.

    `ttl_seconds` is set where the client asked for a cache write behind this block.
    `salt` is hashed but not counted: parameters that the cache depends on.
    """

    text: bytes
    ttl_seconds: int | None = None
    salt: bytes = b""

    @property
    def tokens(self) -> int:
        """Whole tokens, exact because the text is filled up."""
        return len(self.text) // BYTES_PER_TOKEN


def render_text(text: str) -> bytes:
    """Return the text's bytes, filled up to whole tokens."""
    # A lone surrogate is legal in JSON and must not stop a provider.
    encoded = text.encode("utf-8", "surrogatepass")
    return encoded + b"\0" * (-len(encoded) % BYTES_PER_TOKEN)


def render_media(content: str) -> bytes:
    """Return bytes that stand for a picture or a document, by its whole content."""
    digest = hashlib.blake2b(
        content.encode("utf-8", "surrogatepass"), digest_size=16
    ).hexdigest()
    repeats = MEDIA_TOKENS * BYTES_PER_TOKEN // len(digest)
    return digest.encode() * repeats


def count_text(text: str) -> int:
    """Return the tokens of one text."""
    return len(render_text(text)) // BYTES_PER_TOKEN


def clip_text(text: str, tokens: int) -> str:
    """Return the longest beginning that fits in so many tokens."""
    encoded = text.encode("utf-8", "surrogatepass")[: max(tokens, 0) * BYTES_PER_TOKEN]
    return encoded.decode("utf-8", "ignore")
