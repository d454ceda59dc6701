"""How long the provider keeps what it has cached of a request.

Rules:
- The longest lifetime that the request asks for counts; without one, the provider's.
- It is looked for where it may stand: ahead of the history, and in the newest turns.
"""

import re

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.scanner import holds

_LIFETIME = re.compile(
    rb'"(?:ttl|prompt_cache_retention|keep_alive)"\s*:\s*"(\d{1,3})([mh])"'
)
_NAMES = b'cache_\0"keep_alive"\0'
_SHORTEST = len('"ttl":"5m"')
_UNIT_SECONDS = {b"m": 60.0, b"h": 3600.0}
# Ollama unloads a model after five idle minutes, and its cache with it.
_USUAL_SECONDS = {
    "anthropic": 300.0,
    "openai_chat": 600.0,
    "ollama_chat": 300.0,
    "ollama_generate": 300.0,
}
_OTHERS_SECONDS = 600.0
_MARKED_TURNS = 4


def cache_seconds(
    envelope: Envelope, *, unmarked: int = 0, ahead_seconds: float | None = None
) -> float:
    """Return the seconds that the request's prefix is kept without being used.

    That many first turns hold no cache marker, and so no lifetime. `ahead_seconds` is
    what is asked for ahead of the history, where that is known.
    """
    body, turns = envelope.body, envelope.turns
    if ahead_seconds is None:
        ahead_seconds = seconds_ahead(envelope)
    start, end = envelope.history.end, len(body)
    if unmarked < len(turns.kinds):
        start = turns.place(max(unmarked, len(turns.kinds) - _MARKED_TURNS))[0]
    # Mostly, nothing is behind the turns that are known to ask for none.
    asked = _longest_in(body, start, end) if end - start >= _SHORTEST else 0.0
    asked = ahead_seconds if ahead_seconds > asked else asked
    return asked or _USUAL_SECONDS.get(envelope.wire, _OTHERS_SECONDS)


def seconds_ahead(envelope: Envelope) -> float:
    """Return the longest lifetime that is asked for ahead of the history, or 0."""
    return _longest_in(envelope.body, 0, envelope.history.start)


def _longest_in(text: bytes, start: int, end: int) -> float:
    # Few requests name one: a search for words is much cheaper than the pattern. Each
    # member that is or holds a lifetime has the first in its name, but Ollama's.
    if not holds(text, start, end, _NAMES):
        return 0.0
    found = _LIFETIME.finditer(text, start, end)
    return max([int(each[1]) * _UNIT_SECONDS[each[2]] for each in found], default=0.0)
