"""Signatures on the reasoning that the provider emitted.

Rules:
- A signature covers the text, and says which block of how many it is: so an edited,
  foreign, missing or re-ordered block is noticed without any state.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

_STANDARD_ALPHABET = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class Seal:
    """The place of a signed block among the signed blocks of its answer."""

    index: int
    count: int


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs texts and opens signatures; the same secret opens them after a restart."""

    secret: bytes = b"fake provider"

    def sign(self, text: str, seal: Seal) -> str:
        """Return an opaque signature of the text at its place."""
        head = f"{seal.index}.{seal.count}"
        return base64.b64encode(f"{head}.{self._mac(head, text)}".encode()).decode()

    def open(self, text: str, signature: str) -> Seal | None:
        """Return the place that was signed, or None if the signature is not ours."""
        try:
            head, _, mac = base64.b64decode(signature, validate=True).rpartition(b".")
            index, _, count = head.decode("ascii").partition(".")
            seal = Seal(int(index), int(count))
        except ValueError:
            return None
        expected = self._mac(head.decode("ascii"), text)
        return seal if hmac.compare_digest(mac, expected.encode()) else None

    def wrap(self, text: str, seal: Seal) -> str:
        """Return an opaque blob that holds the text and its signature."""
        signed = text.encode("utf-8", "surrogatepass") + b":"
        return base64.b64encode(signed + self.sign(text, seal).encode()).decode()

    def unwrap(self, blob: str) -> Seal | None:
        """Return the place of a blob made by `wrap`, or None if it is not ours."""
        try:
            # Google's SDK writes the other alphabet when it sends the blob back.
            standard = blob.translate(_STANDARD_ALPHABET)
            signed = base64.b64decode(standard, validate=True)
            plain, _, signature = signed.rpartition(b":")
            text = plain.decode("utf-8", "surrogatepass")
            return self.open(text, signature.decode("ascii"))
        except ValueError:
            return None

    def _mac(self, head: str, text: str) -> str:
        message = f"{head}.{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()
