"""How long the provider keeps what it has cached of a request.

Rules:
- The longest lifetime that the request asks for counts; without one, the provider's.
- It is looked for where it may stand: ahead of the history, and in the newest turns.
"""

import re

from deuz_compiler.wires.envelope import Envelope

_LIFETIME = re.compile(
    rb'"(?:ttl|prompt_cache_retention|keep_alive)"\s*:\s*"(\d{1,3})([mh])"'
)
_NAMES = (b'"ttl"', b'"prompt_cache_retention"', b'"keep_alive"')
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


def cache_seconds(envelope: Envelope) -> float:
    """Return the seconds that the request's prefix is kept without being used."""
    body, history = envelope.body, envelope.history
    newest = envelope.turns[-_MARKED_TURNS:]
    start = newest[0].start if newest else history.end
    asked: list[float] = []
    for place in ((0, history.start), (start, len(body))):
        # Few requests name one: a search for the word is much cheaper than the pattern.
        for name in _NAMES:
            if body.find(name, *place) >= 0:
                found = _LIFETIME.finditer(body, *place)
                asked += [int(each[1]) * _UNIT_SECONDS[each[2]] for each in found]
                break
    if asked:
        return max(asked)
    return _USUAL_SECONDS.get(envelope.wire, _OTHERS_SECONDS)
