"""The form that every wire fills in: builders and examples, none of them optional.

`None` says that the provider's API has no such thing; there are no defaults, so that a
new wire cannot leave a law untested by forgetting a field.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deuz_compiler.wires.usage import Usage

Json = Any
Turns = list[dict[str, Any]]
Say = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Specimens:
    """One wire. Turns are JSON values as its clients send them.

    Requests: `head` are the members that stand beside the `history` in a body; `said`
    is a user's turn in its shortest form and `listed` the same one in the longer form;
    `lone` is a whole history that is one text. `opening` is a system turn that may
    lead, `ruled` one that may follow a user's. `marked` puts a cache marker on a
    turn's last block. `called` and `resulted` take call ids, `resulted` a text as
    well; `thought` is an answer with a readable thought and words. `instructed` are
    members with system text beside the history. `aliases` are pairs that are rendered
    alike, `malformed` are no turns; `held` are members that say that the provider
    holds the history.

    Answers: `whole` and `stream` write a text and its usage reports as the provider
    does, `calling` an answer with a tool call; `reports` are the counts that the
    provider tells, `counts_as_it_goes` says that a stream may report several times.
    `ending` is the finish reason of a normal end. `overflows` and `others` are
    refusals with their status; the `_streams` fail behind a good one. Streams are
    server-sent events where `streams_events` says so, and an answer has an id where
    `is_named` does.
    `own_error` returns kind, code and message of an error of ours.
    """

    wire: str
    history: str
    head: dict[str, Any]
    tools: Json
    instructed: Callable[[str], dict[str, Any]] | None
    said: Say
    listed: Say
    lone: Callable[[str], Json] | None
    pictured: Say
    answered: Say
    answered_listed: Say
    opening: Say | None
    ruled: Say | None
    called: Callable[[Sequence[str]], Turns]
    resulted: Callable[[Sequence[str], str], Turns]
    thought: Callable[[str, str], Turns]
    marked: Callable[[dict[str, Any]], dict[str, Any]] | None
    aliases: tuple[tuple[Json, Json], ...]
    malformed: tuple[Json, ...]
    held: tuple[dict[str, Any], ...]

    whole: Callable[[str, Usage | None], bytes]
    calling: Callable[[], bytes]
    stream: Callable[[str, Sequence[Usage | None]], bytes]
    reports: frozenset[str]
    counts_as_it_goes: bool
    streams_events: bool
    is_named: bool
    ending: str
    overflows: tuple[tuple[int, bytes], ...]
    others: tuple[tuple[int, bytes], ...]
    overflow_streams: tuple[bytes, ...]
    other_streams: tuple[bytes, ...]
    own_error: Callable[[Json], tuple[str, str, str]]

    def body(self, history: Json, **members: Json) -> dict[str, Any]:
        """Return a whole request with this history, as a JSON value."""
        return {**self.head, self.history: history, **members}
