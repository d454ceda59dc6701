"""One talk with checkpoints and without: going on gives what reading anew gives.

Rules:
- Each body goes through two lines that differ in their checkpoints alone: one keeps
  them, the other never has any. All that is sent and told must be equal.
- Bodies are written member by member: in any order, twice, ahead of the history and
  behind it, with turns put in, taken out, edited and written another way.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deuz_compiler import Progress, Resumed, Standing, Starts
from deuz_proxy.config.load import parse_config
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime
from deuz_proxy.serve import serve_call
from deuz_testing.line import (
    FixedSource,
    Told,
    make_runtime,
)
from deuz_testing.scripted import GivenClient, GivenRequest, Said, ScriptedUpstreams

pytestmark = pytest.mark.e2e

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/fake:generateContent",
    "ollama_chat": "/api/chat",
}
HISTORY = {
    "anthropic": "messages",
    "openai_chat": "messages",
    "openai_responses": "input",
    "gemini": "contents",
    "ollama_chat": "messages",
}
CONTENTS = {"gemini": "parts"}
CONFIG = """
upstreams: {{anthropic: {{url: "http://u.test", wire: anthropic, placement: {0}}},
  openai: {{url: "http://u.test", wire: openai, placement: {0}}},
  gemini: {{url: "http://u.test", wire: gemini, placement: {0}}},
  ollama: {{url: "http://u.test", wire: ollama, placement: {0}}}}}
routes: [{{path: "/*", mode: compile}}]
context: {{sources: [{{id: rules, type: static, records: [{{id: r, text: no}}]}}]}}
"""
# Long enough that bodies of a few turns have samples to be found by.
FILLING = "The river runs past the mill and on to the sea. " * 12
MARKED = {"cache_control": {"type": "ephemeral"}}
# What may stand beside the history, on whatever side; each twice is a mistake.
MEMBERS = (
    ("tools", '[{"name":"look","input_schema":{"type":"object"}}]'),
    ("tools", '[{"name":"seek","input_schema":{"type":"object"}}]'),
    ("system", '"Be brief."'),
    ("system", '[{"type":"text","text":"Be kind.","cache_control":{"type":"x"}}]'),
    ("instructions", '"Be brief."'),
    ("instructions", '"Be kind."'),
    ("instructions", "null"),
    ("temperature", "1.0"),
    ("reasoning", '{"effort":"low"}'),
    ("thinking", '{"type":"enabled","budget_tokens":1024}'),
    ("tool_choice", '{"type":"auto"}'),
    ("previous_response_id", '"resp_1"'),
    ("stream", "true"),
    ("generationConfig", '{"maxOutputTokens":9}'),
    ("generation_config", '{"max_output_tokens":8,"max.x":1}'),
    ("generationConfig.maxOutputTokens", "7"),
    ("systemInstruction", '{"parts":[{"text":"Be brief."}]}'),
    ("system_instruction", '{"parts":{"text":"Be kind."}}'),
    ("cachedContent", '"cachedContents/1"'),
    ("toolConfig", '{"functionCallingConfig":{"mode":"ANY"}}'),
    ("options", '{"num_ctx":4096,"num_predict":5}'),
    ("options.num_ctx", "2048"),
    ("think", "true"),
    ("format", '"json"'),
    ("max_tokens", "100"),
    ("h", "1"),
    ("", '"no name"'),
    ("0", "{}"),
    ("messages", "[]"),
    ("input", "[]"),
)
ROLES = ("system", "user", "assistant", "model", "developer")
ENDS = ("", "\n", " x", ",", "}")
ODD_TURNS = ("{}", "0", '""', "null", '{"role":"user"}', "[0]")
# What a turn may be followed by where a comma or the end belongs.
SLIPS = ("", ".5", "e5", " ", "0", ",")


class NoCheckpoints:
    """Keeps nothing: every body is read from its start."""

    def find(self, starts: Starts) -> Resumed | None:
        return None

    def keep(
        self,
        starts: Starts,
        progress: Progress,
        standing: Standing | None = None,
        *,
        resumed: Resumed | None = None,
    ) -> None:
        return None


@dataclass(frozen=True)
class Turn:
    """A turn, and how its client writes it."""

    role: str
    text: str
    style: str = "string"

    def written(self, wire: str) -> str:
        name, text = CONTENTS.get(wire, "content"), {"text": self.text}
        parts: Any = [text if wire == "gemini" else {"type": "text"} | text]
        if self.style == "string" or wire == "ollama_chat":
            parts = text if wire == "gemini" else self.text
        elif self.style == "marked":
            parts[0] |= MARKED
        return json.dumps({"role": self.role, name: parts})


@dataclass
class Body:
    """A request as its client keeps it."""

    turns: list[Turn | str] = field(default_factory=list)
    before: list[tuple[str, str]] = field(default_factory=list)
    behind: list[tuple[str, str]] = field(default_factory=list)
    start: str = ""
    slip: str = ""
    end: str = ""

    def written(self, wire: str) -> bytes:
        turns = [t if isinstance(t, str) else t.written(wire) for t in self.turns]
        history = "[" + ", ".join(turns) + self.slip + "]"
        members = [*self.before, (HISTORY[wire], history), *self.behind]
        text = ",".join(f"{json.dumps(name)}: {value}" for name, value in members)
        return (self.start + "{" + text + "}" + self.end).encode()


class Lines:
    """Two lines that differ in their checkpoints alone."""

    def __init__(self, wire: str, placement: str) -> None:
        self.wire = wire
        self.now = 1_000.0
        self.ways = (self._line(placement), self._line(placement, NoCheckpoints()))

    def _line(self, placement: str, *cold: NoCheckpoints) -> tuple[Runtime, Told]:
        told = Told()
        parts: dict[str, Any] = {"checkpoints": cold[0]} if cold else {}
        text = CONFIG.format(placement)
        config = parse_config(text, name="test", folder=Path(), environ={})
        runtime = make_runtime(
            config,
            told,
            sources=[FixedSource()],
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            **parts,
        )
        return runtime, told

    async def send(self, body: bytes) -> None:
        self.now += 1
        (sent, told), (cold_sent, cold_told) = [
            await self._serve(body, *way) for way in self.ways
        ]
        assert sent == cold_sent
        assert told == cold_told

    async def _serve(
        self, body: bytes, runtime: Runtime, told: Told
    ) -> tuple[bytes, RequestFinished]:
        upstreams = runtime.upstreams
        assert isinstance(upstreams, ScriptedUpstreams)
        upstreams.answers.put_nowait(Said())
        request = GivenRequest(body, PATHS[self.wire])
        watch = Watch(runtime.monotonic)
        await serve_call(request, GivenClient(), runtime, watch)
        assert told.faults == []
        return (await upstreams.asked.get()).body, told.last


TURNS = st.one_of(
    st.builds(
        Turn,
        st.sampled_from(ROLES),
        st.sampled_from(["a", "b", FILLING]),
        st.sampled_from(["string", "list", "marked"]),
    ),
    st.builds(
        Turn, st.sampled_from(["user", "assistant"]), st.just(FILLING), st.just("list")
    ),
)
SIDES = st.sampled_from(["before", "behind"])
STEPS = st.one_of(
    st.tuples(st.just("say"), st.lists(TURNS, min_size=1, max_size=3)),
    st.tuples(st.just("say"), st.lists(TURNS, min_size=1, max_size=3)),
    st.tuples(st.just("cut"), st.integers(0, 6)),
    st.tuples(
        st.just("edit"),
        st.integers(0, 6),
        st.one_of(TURNS, TURNS, st.sampled_from(ODD_TURNS)),
    ),
    st.tuples(st.just("add"), SIDES, st.integers(0, 3), st.sampled_from(MEMBERS)),
    st.tuples(st.just("add"), SIDES, st.integers(0, 3), st.sampled_from(MEMBERS)),
    st.tuples(st.just("drop"), SIDES, st.integers(0, 3)),
    st.tuples(st.just("swap"), SIDES),
    st.tuples(st.just("slip"), st.sampled_from(SLIPS)),
    st.tuples(st.just("end"), st.sampled_from(ENDS)),
    st.tuples(st.just("start"), st.sampled_from(["", "\ufeff", " "])),
)


def change(body: Body, step: Sequence[Any]) -> None:
    """Take one step; what does not apply changes nothing."""
    kind, *how = step
    if kind == "say":
        body.turns += how[0]
    elif kind == "cut":
        del body.turns[how[0] :]
    elif kind == "edit" and body.turns:
        body.turns[how[0] % len(body.turns)] = how[1]
    elif kind in ("slip", "end", "start"):
        setattr(body, kind, how[0])
    elif kind in ("add", "drop", "swap"):
        change_members(getattr(body, how[0]), kind, how[1:])


def change_members(
    members: list[tuple[str, str]], kind: str, how: Sequence[Any]
) -> None:
    if kind == "add":
        members.insert(how[0], how[1])
    elif kind == "swap":
        members.reverse()
    elif members:
        members.pop(how[0] % len(members))


@given(
    wire=st.sampled_from(sorted(PATHS)),
    placement=st.sampled_from(["turn", "part"]),
    steps=st.lists(STEPS, max_size=16),
)
@settings(deadline=None)
def test_what_is_gone_on_with_is_what_is_read_anew(
    wire: str, placement: str, steps: list[Any]
) -> None:
    lines = Lines(wire, placement)
    body = Body([Turn("user", FILLING)], [("model", '"fake"')])

    async def talk() -> None:
        await lines.send(body.written(wire))
        for step in steps:
            change(body, step)
            await lines.send(body.written(wire))

    asyncio.run(talk())
