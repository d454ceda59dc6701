"""Which window a request's model has: told from id, alias and header, per request.

Rules:
- The config wins over the built-in table; of two families the longer name wins.
- Only dates, versions and a few known tags may follow a family's name: an unknown
  variant has no window, and a label `other`, rather than a guessed one.
- A size in the id (`model[1m]`) or a long-context beta is part of the answer.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from deuz_proxy.config.families import FAMILIES, THINKING_BINDING, Family
from deuz_proxy.config.model import ModelEntry

OTHER = "other"

# Ids come from clients: beyond this they are not looked at.
_LONGEST_ID = 200
_SIZE = re.compile(r"(?P<base>.+)\[(?P<number>[0-9]{1,4})(?P<unit>[km])\]")
_UNITS = {"k": 1_000, "m": 1_000_000}
# us.anthropic.claude-…, anthropic/claude-…, models/gemini-…, projects/…/models/…
_PREFIX = re.compile(
    r"^(?:.*/)?(?:(?:us|eu|apac|jp|au|global)\.)?"
    r"(?:(?:anthropic|meta|mistral|cohere|openai|deepseek|amazon|qwen)\.)?"
)
_TAIL = re.compile(
    r"(?:[-@:](?:[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}-[0-9]{2,4}|[0-9]{3,4}"
    r"|latest|preview|exp|default|v[0-9]+(?::[0-9]+)?|free|beta|thinking|online))*"
)


@dataclass(frozen=True, slots=True)
class Window:
    """What a model takes: a limit shared with the answer, one of its own, or both."""

    total_tokens: int | None
    input_tokens: int | None
    max_output_tokens: int | None
    source: Literal["config", "builtin", "request"]

    def room(self, output_tokens: int) -> int:
        """Return how much input fits when that much is kept for the answer.

        Never negative. An answer larger than the model gives counts as that.
        """
        if output_tokens and self.max_output_tokens is not None:
            output_tokens = min(output_tokens, self.max_output_tokens)
        room = self.input_tokens
        if self.total_tokens is not None:
            beside = self.total_tokens - output_tokens
            room = beside if room is None else min(room, beside)
        return room if room is not None and room > 0 else 0


class Models:
    """The known models: the built-in table and the config's over it. Immutable."""

    def __init__(
        self, entries: Mapping[str, ModelEntry], binding: tuple[str, ...] = ()
    ) -> None:
        self._entries = {_folded(name): entry for name, entry in entries.items()}
        self._written = {_folded(name): name for name in entries}
        self._binding = frozenset((*THINKING_BINDING, *map(_folded, binding)))
        self._names = tuple(
            sorted({*self._entries, *FAMILIES}, key=lambda name: (-len(name), name))
        )
        # The same few ids come back with every request; a client that makes up new
        # ones must not grow this.
        self._family = lru_cache(maxsize=1024)(self._find_family)
        self._window = lru_cache(maxsize=1024)(self._find_window)

    def window(self, model: str, *, beta: str = "") -> Window | None:
        """Return the model's window, None when it is not known.

        `beta` is the request's `anthropic-beta` header, all values joined.
        """
        return self._window(model[:_LONGEST_ID], "context-1m" in beta)

    def known(self, model: str | None) -> str:
        """Return the model's family as a label, `other` when it is not known."""
        family = self._family(model[:_LONGEST_ID]) if model else None
        return OTHER if family is None else self._written.get(family, family)

    def binds_thinking(self, model: str) -> bool:
        """Return whether replayed thinking is void when its prefix changed."""
        family = self._family(model[:_LONGEST_ID])
        entry = self._entries.get(family) if family else None
        if entry is not None and entry.binds_thinking is not None:
            return entry.binds_thinking
        return family in self._binding

    def names(self) -> tuple[str, ...]:
        """Return every label that `known` may give, `other` included."""
        labels = (self._written.get(name, name) for name in self._names)
        return (*sorted(labels), OTHER)

    def _find_window(self, model: str, is_long: bool) -> Window | None:  # noqa: FBT001  # A cache's key.
        family = self._family(model)
        if family is None:
            return None
        # A size that is part of a configured name is that name's business.
        size = None if "[" in family else _size(model)
        entry = self._entries.get(family)
        if entry is not None:
            return Window(
                size or entry.context_window, None, entry.max_output_tokens, "config"
            )
        return _built_in(FAMILIES[family], size, is_long=is_long)

    def _find_family(self, model: str) -> str | None:
        for form in _forms(model):
            for name in self._names:
                if form.startswith(name) and _TAIL.fullmatch(form, len(name)):
                    return name
        return None


def _folded(name: str) -> str:
    return name.strip().lower()


def _forms(model: str) -> tuple[str, ...]:
    """Return the spellings under which the id may be known, the fullest first."""
    whole = _folded(model)
    sized = _SIZE.fullmatch(whole)
    plain = sized["base"] if sized else whole
    bare = _PREFIX.sub("", plain, count=1)
    # Some gateways write claude-opus-4.8 for claude-opus-4-8.
    dashed = bare.replace(".", "-") if bare.startswith("claude") else bare
    return (whole, plain, bare, dashed)


def _size(model: str) -> int | None:
    sized = _SIZE.fullmatch(_folded(model))
    return int(sized["number"]) * _UNITS[sized["unit"]] if sized else None


def _built_in(family: Family, size: int | None, *, is_long: bool) -> Window:
    long = family.long_total_tokens if is_long else None
    total = size or long or family.total_tokens
    own = None if size else family.input_tokens
    return Window(total, own, family.max_output_tokens, "builtin")
