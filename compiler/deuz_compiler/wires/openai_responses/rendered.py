"""The text of a Responses item as the provider's cache sees it.

Rules:
- A message is its role and its content, in whatever order and with or without a type;
  a lone text is the same as its plain string.
- Ids are not rendered: Codex gives its items random ones. An id counts only where
  the item does not hold what it stands for: a reference, reasoning kept by the
  provider, a call of the provider's own tools.
- States, nulls and cache markers are not rendered. All else counts byte for byte.
"""

from collections.abc import Iterable, Mapping

import msgspec

from deuz_compiler.wires.openai_responses.items import MESSAGE
from deuz_compiler.wires.rendered import MARKERS

Members = Mapping[str, msgspec.Raw]

_PIECES = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])
_TEXTS = frozenset({b'"input_text"', b'"output_text"', b'"text"'})
_LONE = {"type", "text"}
# The SDKs hand these back with an answer's text, whether there are any or not.
_ASIDE = frozenset({"annotations", "logprobs"})
_NOTHING = frozenset({b"null", b"[]"})
_UNSEEN = MARKERS | {"status"}
_CONTENTS = frozenset({"content", "output"})
_SEPARATOR = b"\0"  # Stands in no JSON text.


def rendered_item(kind: str, members: Members) -> bytes:
    """Return what of the item is rendered, as bytes that only equal items share."""
    dropped = _UNSEEN | {"id"} if _says_itself(kind, members) else _UNSEEN
    kept = {
        name: _content(bytes(value)) if name in _CONTENTS else bytes(value)
        for name, value in members.items()
        if name not in dropped and bytes(value) != b"null"
    }
    if kind == MESSAGE:
        kept.pop("type", None)
        role, content = kept.pop("role", b""), kept.pop("content", b"")
        return _SEPARATOR.join([role, content, *_pairs(kept.items())])
    return _SEPARATOR.join(_pairs(kept.items()))


def rendered_text(text: bytes) -> bytes:
    """Return what an input that is this JSON string is rendered as: a user message."""
    return _SEPARATOR.join([b'"user"', text])


def _says_itself(kind: str, members: Members) -> bool:
    if kind == MESSAGE or "call_id" in members:
        return True
    return bytes(members.get("encrypted_content", b"null")) != b"null"


def _pairs(members: Iterable[tuple[str, bytes]]) -> list[bytes]:
    return [name.encode() + _SEPARATOR + value for name, value in members]


def _content(value: bytes) -> bytes:
    if value[:1] != b"[":
        return value
    pieces = [_seen(piece) for piece in _PIECES.decode(value)]
    if len(pieces) == 1 and _is_lone_text(pieces[0]):
        return pieces[0]["text"]
    return b"[" + _SEPARATOR.join(
        [_SEPARATOR.join([b"{", *_pairs(piece.items())]) for piece in pieces]
    )


def _seen(piece: Members) -> dict[str, bytes]:
    return {
        name: bytes(value)
        for name, value in piece.items()
        if name not in MARKERS and not (name in _ASIDE and bytes(value) in _NOTHING)
    }


def _is_lone_text(piece: Mapping[str, bytes]) -> bool:
    return piece.keys() == _LONE and piece["type"] in _TEXTS
