"""What may be shown of strings that come from outside.

Rules:
- A path shows the words of the providers' APIs and nothing else; a query never.
- A word is a short identifier; anything else could be prose, and prose is content.
- A name (a model, a response id) is cut to a length and is always valid UTF-8.
"""

import re

from deuz_proxy.observe.vocabulary import PATH_WORDS

HIDDEN = "_"
UNWORDED = "_OTHER"
NAME_CHARACTERS = 256

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}|[1-5][0-9]{2}")
_UNSAFE = re.compile(r"[^a-z0-9_-]")


def shown_path(path: str, upstream: str = "") -> str:
    """Return the path with every segment hidden that is not a word of an API."""
    bare = path.partition("?")[0].partition("#")[0]
    return "/".join(_shown_segment(part, upstream) for part in bare.split("/"))


def shown_word(value: str | None) -> str | None:
    """Return an identifier as it is, `_OTHER` for anything else."""
    if value is None or _WORD.fullmatch(value):
        return value
    return UNWORDED


def shown_name(value: str) -> str:
    """Return a name short enough to store and without lone surrogates."""
    short = value[:NAME_CHARACTERS]
    return short if short.isascii() else short.encode(errors="replace").decode()


def shown_source(source_id: str) -> str:
    """Return a source's id as it may stand in an attribute's name."""
    return _UNSAFE.sub("_", source_id.lower())


def _shown_segment(segment: str, upstream: str) -> str:
    if not segment or segment in PATH_WORDS:
        return segment
    if upstream and segment == f"@{upstream}":
        return segment
    # Gemini: `models/NAME:generateContent`.
    _, colon, verb = segment.rpartition(":")
    return f"{HIDDEN}:{verb}" if colon and verb in PATH_WORDS else HIDDEN
