"""Agents whose model binds its thinking to the prefix, at random through the line.

Rules, checked at every request:
- In front of a thought that is replayed stands what stood there when it was thought,
  byte for byte: blocks, copies of working memory, a summary, the client's own turns.
- No request is refused that the client's own bytes would not be refused for.
- A copy of working memory is written where it ended a request, of what was noted then.
- We never change a prefix but to recover from an overflow.
"""

import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule

from deuz_compiler import Candidate
from deuz_proxy.demo.provider import ProviderRequest, Reply, Text, ToolCall
from deuz_proxy.demo.provider.exchange import Thinking
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Query
from deuz_proxy.serve import serve_call
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import anthropic_body, tool_result, user
from deuz_testing.line import (
    SOURCE_CONFIG,
    FixedSource,
    Told,
    make_config,
    make_runtime,
)
from deuz_testing.loops import PlainLoop
from deuz_testing.modelled import ModelledUpstreams
from deuz_testing.scripted import GivenClient, GivenRequest

pytestmark = pytest.mark.e2e

MODEL = "claude-opus-5-5"
LONG = "The river runs past the mill and on to the sea. " * 30
TOOL = {"name": "look", "description": "", "input_schema": {"type": "object"}}
# Where user turns may not be neighbours nothing can be condensed for such a model: what
# we add makes it overflow sooner, and that is told in docs/overflow.md.
SHAPES = (("turn", 3_000), ("turn", 1_000_000), ("part", 1_000_000))
TEXTS = {"short": "And then?", "long": LONG, "tool": "use the tool"}
RESULTS = {"short": "3", "long": LONG * 3}
SUMMARY = "Notes: a river."
KEY = "task-1"
TAG = "<deuz_working_memory"


@dataclass
class Branch:
    """One agent's history, with the provider's own answers in it."""

    turns: list[Any] = field(default_factory=list)
    has_notes: bool = True

    @property
    def newest(self) -> int:
        """How far the history reaches, but for system turns at its end."""
        end = len(self.turns)
        while self.turns[end - 1]["role"] == "system":
            end -= 1
        return end

    @property
    def call(self) -> str | None:
        """The id of the call that waits for its result."""
        content = self.turns[-1]["content"] if self.turns else ()
        calls = [b["id"] for b in content if isinstance(b, dict) and "id" in b]
        return calls[0] if calls and self.turns[-1]["role"] == "assistant" else None


@dataclass
class Growing(FixedSource):
    """A source with a new record each time, or none, or a fault."""

    state: str = "ok"

    async def find(self, query: Query) -> Sequence[Candidate]:
        self.asked.append(query)
        if self.state == "failed":
            raise RuntimeError
        if self.state == "empty":
            return ()
        number = len(self.asked)
        return (
            Candidate(
                source="rules",
                kind="memory",
                record_id=f"r{number}",
                text=f"N{number}.",
            ),
        )


class BindingMachine(RuleBasedStateMachine):
    """Agents that share histories; each rule sends what its agent would send."""

    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.loop = PlainLoop()
        self.now = 1_000_000.0
        self.told = Told()
        self.source = Growing()
        self.serial = 0
        self.revision = 0
        self.goal = ""
        # What stood in front of each thought when the model thought it.
        self.bound: dict[str, list[Any]] = {}
        self.seen: dict[str, str] = {}
        self.was_condensed = False

    @initialize(shape=st.sampled_from(SHAPES))
    def begin(self, shape: tuple[str, int]) -> None:
        placement, window = shape

        def upstreams(script: Any) -> ModelledUpstreams:
            return ModelledUpstreams(
                lambda: self.now, window_tokens=window, script=script
            )

        self.store = self.run(SqliteMemory(":memory:", words_of=words_of).open())
        self.notes = WorkingMemory(self.store, clock=lambda: self.now)
        self.upstreams = upstreams(self.answer)
        # What would become of the client's own bytes.
        self.bare = upstreams(lambda _: Reply((Text("So."),)))
        self.runtime = make_runtime(
            make_config(placement=placement, more=SOURCE_CONFIG),
            self.told,
            sources=[self.source],
            upstreams=self.upstreams,
            notes=self.notes,
            clock=lambda: self.now,
        )

    def answer(self, asked: ProviderRequest) -> Reply:
        if "tools" not in asked.payload:
            return Reply((Text(SUMMARY),))
        self.serial += 1
        thought = f"thought {self.serial}"
        self.bound[thought] = asked.payload["messages"]
        is_call = "use the tool" in asked.body.decode().rpartition('"role":"user"')[2]
        said = (
            ToolCall("look", {}, str(self.serial))
            if is_call
            else Text(f"Far, {self.serial}.")
        )
        return Reply((Thinking(thought), said))

    @rule(target=branches, has_notes=st.booleans())
    def open(self, has_notes: bool) -> Any:
        branch = Branch(has_notes=has_notes)
        self.say(branch, f"How far is it, {self.serial}?")
        return branch

    @rule(branch=branches, words=st.sampled_from(sorted(TEXTS)))
    def ask(self, branch: Branch, words: str) -> None:
        self.say(branch, f"{self.serial}: {TEXTS[words]}")

    @rule(branch=branches, steps=st.integers(3, 9))
    def ask_much(self, branch: Branch, steps: int) -> None:
        for _ in range(steps):
            self.say(branch, f"{self.serial}: {LONG}")

    @rule(branch=branches, result=st.sampled_from(sorted(RESULTS)))
    def answer_call(self, branch: Branch, result: str) -> None:
        if branch.call is not None:
            branch.turns.append(tool_result(branch.call, RESULTS[result]))
            self.send(branch)

    @rule(branch=branches)
    def remind(self, branch: Branch) -> None:
        """The agent's harness adds a system turn behind the user's words."""
        if branch.call is None:
            self.serial += 1
            branch.turns.append(user(f"Well, {self.serial}?"))
            branch.turns.append({"role": "system", "content": f"Rule {self.serial}."})
            self.send(branch)

    @rule(target=branches, branch=branches)
    def fork(self, branch: Branch) -> Any:
        return Branch(list(branch.turns), branch.has_notes)

    @rule(branch=branches, dice=st.integers(0, 20), edits=st.booleans())
    def go_back(self, branch: Branch, dice: int, edits: bool) -> None:
        """An earlier question is asked again, or another one in its place."""
        asked = [
            index
            for index, turn in enumerate(branch.turns)
            if turn["role"] == "user" and isinstance(turn["content"], str)
        ]
        place = asked[dice % len(asked)]
        branch.turns = branch.turns[: place + 1]
        if edits:
            self.serial += 1
            branch.turns[place] = user(f"Rather, {self.serial}?")
        self.send(branch)

    @rule(goal=st.sampled_from(["Ship on Friday", "Ship on Monday", "Rest"]))
    def note(self, goal: str) -> None:
        patch = {
            "operation_id": f"op-{self.revision}",
            "expected_revision": self.revision,
            "writer": "host",
            "operations": [{"op": "set-goal", "text": goal}],
        }
        patched = self.run(self.notes.patch("default", KEY, patch))
        assert patched.status == "applied"
        self.revision, self.goal = patched.snapshot.revision, goal

    @rule(branch=branches, has_notes=st.booleans())
    def change_notes(self, branch: Branch, has_notes: bool) -> None:
        branch.has_notes = has_notes

    @rule(state=st.sampled_from(["ok", "empty", "failed"]))
    def change_source(self, state: str) -> None:
        self.source.state = state

    def say(self, branch: Branch, words: str) -> None:
        if branch.call is not None:
            branch.turns.append(tool_result(branch.call, "3"))
            self.send(branch)
        if branch.turns and branch.turns[-1]["role"] != "assistant":
            # It was refused: nobody answered.
            return
        self.serial += 1
        branch.turns.append(user(words))
        self.send(branch)

    def send(self, branch: Branch) -> None:
        """Send the branch's history and judge what came of it."""
        self.now += 1
        body = anthropic_body(
            branch.turns,
            model=MODEL,
            max_tokens=200,
            thinking={"type": "adaptive"},
            tools=[TOOL],
        )
        client = self.serve(branch, body)
        finished, verdict = self.told.last, self.told.last.verdict
        assert finished.sidecar_mutations == 0, verdict
        assert self.told.faults == [] or self.is_excused(), self.told.faults
        if client.status != 200:
            assert self.is_refused_bare(body), client.body
            branch.turns.pop()
            return
        messages = json.loads(self.upstreams.log[-1].body)["messages"]
        self.check_thoughts(messages)
        self.was_condensed |= any(o.outcome == "recovered" for o in finished.overflows)
        self.check_ours(branch, messages)
        assert verdict is not None
        assert verdict.owner != "sidecar" or verdict.cause == "overflow_recovery"
        # As agents do: a text that was cut to nothing is not sent again.
        content = [b for b in json.loads(client.body)["content"] if b.get("text") != ""]
        branch.turns.append({"role": "assistant", "content": content})

    def serve(self, branch: Branch, body: bytes) -> GivenClient:
        key = KEY if branch.has_notes else "nobody's"
        lines = ((b"x-api-key", b"key-1"), (b"x-deuz-working-memory", key.encode()))
        client, before = GivenClient(), len(self.upstreams.log)
        watch = Watch(self.runtime.monotonic)
        incoming = GivenRequest(body, "/v1/messages", lines)
        self.run(serve_call(incoming, client, self.runtime, watch))
        for logged in self.upstreams.log[before:]:
            assert logged.rule in {None, "overflow"}, (logged.rule, logged.body)
        return client

    def is_refused_bare(self, body: bytes) -> bool:
        before = len(self.bare.log)
        self.run(
            self.bare.send(
                method="POST",
                base="",
                path="/v1/messages",
                headers=((b"x-api-key", b"key-1"),),
                body=body,
            )
        )
        return self.bare.log[before].rule is not None

    def is_excused(self) -> bool:
        return all(code.startswith("summary_") for _, code in self.told.faults)

    def check_thoughts(self, messages: list[Any]) -> None:
        for place, message in enumerate(messages):
            for block in message["content"]:
                if isinstance(block, dict) and block["type"] == "thinking":
                    ahead = self.bound[block["thinking"]]
                    assert messages[:place] == ahead, block["thinking"]

    def check_ours(self, branch: Branch, messages: list[Any]) -> None:
        """What is ours stands where it first stood; a new copy is of now."""
        if self.was_condensed:
            return
        found = ours_behind(messages)
        history = ""
        for position, turn in enumerate(branch.turns, 1):
            history += json.dumps(turn, sort_keys=True)
            here = found.pop(position, "")
            if history in self.seen:
                assert self.seen[history] == here
            elif TAG in here:
                # Only what is sent for the first time gets one, of what is noted now.
                assert (position, branch.has_notes) == (branch.newest, True)
                assert self.goal in here[here.index(TAG) :]
            self.seen[history] = here
        assert not found

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(step)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
        self.loop.close()


def ours_behind(messages: Sequence[Any]) -> dict[int, str]:
    """Return what is ours by how many of the client's turns stand before it."""
    found: dict[int, str] = {}
    count = 0
    for message in messages:
        content = message["content"]
        parts = [content] if isinstance(content, str) else content
        texts = [p if isinstance(p, str) else p.get("text", "") for p in parts]
        ours = [text[text.index("<deuz_") :] for text in texts if "<deuz_" in text]
        is_own_turn = len(texts) == 1 and texts[0].startswith("<deuz_")
        count += not is_own_turn
        if ours:
            found[count] = found.get(count, "") + "".join(ours)
    return found


TestBinding = BindingMachine.TestCase
TestBinding.settings = settings(
    stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
