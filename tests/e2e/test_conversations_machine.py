"""Several clients talk at random through the line; the provider's mind is the judge.

Rules, checked at every request:
- No request is refused that the client's own bytes would not be refused for.
- A block stands where it first stood, with the same bytes, in every request whose
  history reaches so far; nothing else is added.
- A history that goes on keeps its cache and is told so; we never change a prefix.
- After a recovery all this holds for what is left of the history.
- With a holdout all this holds too, and who is held out gets the client's own bytes.
- Working memory ends a request at most once, as it is noted now, and is no part of what
  is cached or compared.
"""

import json
import re
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
)

from deuz_compiler import Candidate
from deuz_proxy.demo.provider import ProviderRequest, Reply, Text, judge_body
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Query
from deuz_proxy.serve import serve_call
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.branches import PATHS, Branch, Message, Wire
from deuz_testing.line import SOURCE_CONFIG, Told, make_config, make_runtime
from deuz_testing.loops import PlainLoop
from deuz_testing.modelled import Logged, ModelledUpstreams
from deuz_testing.scripted import GivenClient, GivenRequest

pytestmark = pytest.mark.e2e

KEYS = (b"key-1", b"key-2")
SYSTEMS = ("You are a guide. " * 8, "You are a clerk. " * 8)
MORE = (
    SOURCE_CONFIG.replace("{", "{{").replace("}", "}}")
    + "  holdout: {holdout}\noverflow: {{keep_recent_steps: 1}}\n"
)
NOTES_KEY = "task-1"
BLOCK = re.compile("<deuz_context.*?</deuz_context>", re.DOTALL)
TAIL = "<deuz_working_memory"
OPENINGS = ("How far is it?", "Where does the river end?")
LONG = "The river runs past the mill and on to the sea. " * 40
# A window that a few exchanges fill, and one that nothing does.
WINDOWS = (2_500, 1_000_000)
# A marker that the client sets stands before our block: it is written a turn later.
BLOCK_TOKENS = 160
# Working memory of one goal takes some 80.
TAIL_TOKENS = 120
# Texts are filled up to whole tokens, turn by turn.
ROUNDING_TOKENS = 8


@dataclass
class Mood:
    """A source whose answers the test changes; each record it finds is a new one."""

    id: str = "rules"
    kind: str = "memory"
    is_required: bool = False
    gives_mandatory: bool = True
    state: str = "ok"
    found: int = 0

    async def find(self, query: Query) -> Sequence[Candidate]:
        if self.state == "late":
            raise TimeoutError
        if self.state == "failed":
            raise RuntimeError
        if self.state == "empty":
            return ()
        self.found += 1
        record, text = f"r{self.found}", f"Record {self.found} for {query.scope}."
        return (
            Candidate(
                source="rules", kind="memory", record_id=record, text=text, score=1.0
            ),
        )

    async def close(self) -> None:
        return None


class ConversationsMachine(RuleBasedStateMachine):
    """Branches of conversations; each rule sends what its client would send."""

    branches = Bundle("branches")

    def __init__(self) -> None:
        super().__init__()
        self.loop = PlainLoop()
        self.now = 1_000_000.0
        self.told = Told()
        self.source = Mood()
        self.serial = 0
        self.opened: list[Branch] = []
        self.blocks: dict[tuple[bytes, str], tuple[str, ...]] = {}
        self.was_condensed = False
        self.revision = 0
        self.goal: str | None = None
        self.ends: dict[tuple[bytes, str], str | None] = {}
        # What was accepted, the latest last: copies of branches as they were sent.
        self.accepted: list[Branch] = []

    @initialize(
        wire=st.sampled_from(sorted(PATHS)),
        placement=st.sampled_from(["turn", "part"]),
        window=st.sampled_from(WINDOWS),
        holdout=st.sampled_from(["0", "0.5"]),
    )
    def begin(self, wire: str, placement: str, window: int, holdout: str) -> None:
        self.wire, self.placement, self.window = Wire(wire), placement, window
        self.store = self.run(SqliteMemory(":memory:", words_of=words_of).open())
        self.notes = WorkingMemory(self.store, clock=lambda: self.now)
        self.upstreams = ModelledUpstreams(
            lambda: self.now, window_tokens=window, script=summarize
        )
        self.runtime = make_runtime(
            make_config(placement=placement, more=MORE.format(holdout=holdout)),
            self.told,
            sources=[self.source],
            upstreams=self.upstreams,
            notes=self.notes,
            clock=lambda: self.now,
        )

    @rule(
        target=branches,
        key=st.sampled_from(KEYS),
        system=st.sampled_from(SYSTEMS),
        opening=st.sampled_from(OPENINGS),
    )
    def open(self, key: bytes, system: str, opening: str) -> Any:
        branch = Branch(key, system, [{"role": "user", "content": opening}])
        self.opened.append(branch)
        self.send(branch)
        return branch

    @rule(branch=branches, asks=st.booleans())
    def say_little(self, branch: Branch, asks: bool) -> None:
        self.say(branch, "Far.", asks=asks)

    def say(self, branch: Branch, reply: str, *, asks: bool) -> None:
        self.serial += 1
        # No model says the same twice: equal histories are forks, and nothing else.
        said = f"{reply} ({self.serial})"
        branch.messages.append({"role": "assistant", "content": said})
        question = f"And {len(branch.messages)}?" if asks else "Go on."
        branch.messages.append({"role": "user", "content": question})
        self.send(branch)

    @rule(branch=branches, steps=st.integers(2, 5))
    def say_much(self, branch: Branch, steps: int) -> None:
        for _ in range(steps):
            self.say(branch, LONG, asks=False)

    @rule(branch=branches, count=st.integers(1, 3), result=st.sampled_from(["3", LONG]))
    def use_tools(self, branch: Branch, count: int, result: str) -> None:
        branch.with_tools = True
        self.serial += 1
        ids = [f"call_{self.serial}_{n}" for n in range(count)]
        branch.messages += self.wire.tools(ids, result)
        self.send(branch)

    @rule(branch=branches)
    def remind(self, branch: Branch) -> None:
        """The client's harness adds a system turn behind the user's newest words."""
        if branch.messages[-1].get("role") == "user":
            self.serial += 1
            reminder = {"role": "system", "content": f"Rule {self.serial}."}
            branch.messages.append(reminder)
            self.send(branch)
            branch.messages.append({"role": "assistant", "content": "Yes."})
            branch.messages.append({"role": "user", "content": "Well?"})
            self.send(branch)

    @rule(branch=branches)
    def resend(self, branch: Branch) -> None:
        self.send(branch)

    @rule(target=branches, branch=branches)
    def fork(self, branch: Branch) -> Any:
        """Another client has the same history; that there are two shows when sent."""
        copy = branch.copied()
        self.opened.append(copy)
        self.send(copy)
        return copy

    @rule(branch=branches, dice=st.integers(0, 20), edits=st.booleans())
    def go_back(self, branch: Branch, dice: int, edits: bool) -> None:
        asked = [
            index
            for index, message in enumerate(branch.messages)
            if message.get("role") == "user" and isinstance(message["content"], str)
        ]
        place = asked[dice % len(asked)]
        branch.messages = branch.messages[: place + 1]
        if edits:
            self.serial += 1
            words = f"Rather {self.serial}?"
            branch.messages[place] = {"role": "user", "content": words}
            # Who else goes on from there cannot be told from one who edits again.
            for other in self.opened:
                other.sent = []
        self.send(branch)

    @rule(branch=branches)
    def compact_by_itself(self, branch: Branch) -> None:
        notes = {"role": "user", "content": "Notes: the river was spoken of."}
        branch.messages = [notes, {"role": "assistant", "content": "Right."}]
        branch.messages.append({"role": "user", "content": "On with it."})
        self.send(branch)

    @rule(branch=branches)
    def prefill(self, branch: Branch) -> None:
        ahead = branch.copied()
        self.send(ahead)
        ahead.messages.append({"role": "assistant", "content": "It is"})
        self.send(ahead)
        shown = branch.messages
        for other in self.opened:
            is_shared = other.messages[: len(shown)] == shown
            if other is not branch and other.key == branch.key and is_shared:
                # Whose history it is that goes on otherwise cannot be told.
                branch.sent = []

    @rule(branch=branches, style=st.sampled_from(["string", "list", "marked"]))
    def restyle(self, branch: Branch, style: str) -> None:
        branch.style = style

    @rule(branch=branches, system=st.sampled_from(SYSTEMS))
    def reword_system(self, branch: Branch, system: str) -> None:
        branch.system = system

    @rule(state=st.sampled_from(["ok", "empty", "late", "failed"]))
    def change_source(self, state: str) -> None:
        self.source.state = state

    @rule(goal=st.sampled_from(["Ship on Friday", "Rest"]))
    def note(self, goal: str) -> None:
        patch = {
            "operation_id": f"op-{self.revision}",
            "expected_revision": self.revision,
            "writer": "host",
            "operations": [{"op": "set-goal", "text": goal}],
        }
        patched = self.run(self.notes.patch("default", NOTES_KEY, patch))
        self.revision, self.goal = patched.snapshot.revision, goal

    @rule(branch=branches, with_notes=st.booleans())
    def change_notes(self, branch: Branch, with_notes: bool) -> None:
        branch.with_notes = with_notes

    def send(self, branch: Branch) -> None:
        """Send the branch's history and judge what came of it."""
        self.now += 1
        body, before = self.wire.body(branch), len(self.upstreams.log)
        client = self.serve(branch, body)
        last = self.upstreams.log[-1]
        finished = self.told.last
        recovered = any(o.outcome == "recovered" for o in finished.overflows)
        self.was_condensed |= recovered
        self.check_rules(body, self.upstreams.log[before:])
        assert finished.sidecar_mutations == 0, finished.verdict
        if finished.group == "held_out":
            assert [each.body for each in self.upstreams.log[before:]] == [body]
        assert self.told.faults == [] or self.is_excused(), self.told.faults
        if client.status != 200 or last.usage is None:
            return
        self.check_tail(branch, finished, json.loads(last.body))
        self.check_blocks(branch, json.loads(last.body))
        self.check_cache(branch, finished, last, recovered=recovered)
        self.accepted.append(branch.copied())
        branch.sent, branch.sent_head = list(branch.messages), branch.head
        # Behind the client's own marker our block is not written to the cache yet.
        is_whole = branch.style != "marked"
        # What only ends this request is not there in the next one.
        passing = TAIL_TOKENS if TAIL.encode() in last.body else 0
        whole_tokens = max(0, last.usage.input_total - passing)
        branch.cached_tokens = whole_tokens if is_whole else 0

    def is_excused(self) -> bool:
        """Tell whether the faults are only summaries that came out too long."""
        return all(code.startswith("summary_") for _, code in self.told.faults)

    def serve(self, branch: Branch, body: bytes) -> GivenClient:
        named = NOTES_KEY.encode() if branch.with_notes else b"nobody"
        headers = ((b"x-api-key", branch.key), (b"x-deuz-working-memory", named))
        client, watch = GivenClient(), Watch(self.runtime.monotonic)
        incoming = GivenRequest(body, PATHS[self.wire.name], headers)
        self.run(serve_call(incoming, client, self.runtime, watch))
        return client

    def check_rules(self, body: bytes, sent: Sequence[Logged]) -> None:
        alternate = self.placement == "part"
        for alternating in {False, alternate}:
            if judge_body(self.wire.name, body, alternate=alternating) is None:
                for logged in sent:
                    refusal = judge_body(
                        self.wire.name, logged.body, alternate=alternating
                    )
                    assert refusal is None, (refusal, logged.body)

    def check_tail(
        self, branch: Branch, finished: RequestFinished, sent: Message
    ) -> None:
        """Working memory is there once, at the end, and as it is now; or not at all."""
        history = sent.get("messages") or sent["input"]
        said = [history] if isinstance(history, str) else list(history)
        while said[-1:] and is_system(said[-1]):
            said.pop()
        text = json.dumps(sent)
        is_there = branch.with_notes and self.goal is not None
        at_end = TAIL in json.dumps(said[-1])
        if self.wire.name != "anthropic":
            assert text.count(TAIL) == int(at_end)
        place = (branch.key, json.dumps(branch.messages, sort_keys=True))
        is_new = place not in self.ends
        # Where the prompt is cached to its end, what ended it stays as it was.
        first = self.ends.setdefault(place, self.goal if at_end else None)
        if at_end:
            ended = json.dumps(said[-1])
            assert any(f"{goal}" in ended for goal in {self.goal, first} if goal)
        elif is_there and is_new and finished.group != "held_out":
            # Only words of the user's own are sure to have room behind them.
            assert not is_words(branch.messages[-1]) or finished.overflows, text

    def check_blocks(self, branch: Branch, sent: Message) -> None:
        if self.was_condensed:
            return
        found = blocks_behind(sent.get("messages") or sent["input"])
        history = ""
        for position, message in enumerate(branch.messages, 1):
            history += json.dumps(message, sort_keys=True)
            here = found.get(position, ())
            known = self.blocks.setdefault((branch.key, history), here)
            assert known == here, (known, here, branch.messages)
        assert sum(map(len, found.values())) == sum(
            len(found.get(n + 1, ())) for n in range(len(branch.messages))
        )

    def check_cache(
        self,
        branch: Branch,
        finished: RequestFinished,
        last: Logged,
        *,
        recovered: bool,
    ) -> None:
        verdict = finished.verdict
        assert verdict is not None
        assert last.usage is not None
        if verdict.owner == "sidecar":
            assert verdict.cause == "overflow_recovery"
            assert self.was_condensed
            return
        is_marked = branch.style == "marked"
        slack = BLOCK_TOKENS if is_marked else ROUNDING_TOKENS
        if not (is_marked and self.follows_unmarked(branch)):
            assert (verdict.missed_tokens or 0) <= slack, verdict
        if not branch.goes_on or recovered:
            return
        assert verdict.verdict not in ("first", "broken"), verdict
        # What was condensed for a branch is condensed for all that share its history.
        is_shorter = last.usage.input_total < branch.cached_tokens
        assert self.was_condensed or not is_shorter, verdict
        if not (is_marked or is_shorter):
            assert last.usage.cache_read >= branch.cached_tokens - slack, verdict

    def follows_unmarked(self, branch: Branch) -> bool:
        """Tell whether what the branch goes on from was cached up to its very end.

        A client that now marks an earlier place cannot read that entry: no cache reads
        a prefix longer than what was marked. It reads the entry before, wherever it is.
        """
        for sent in reversed(self.accepted):
            is_ahead = branch.messages[: len(sent.messages)] == sent.messages
            if sent.key == branch.key and sent.head == branch.head and is_ahead:
                return sent.style != "marked"
        return False

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(step)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.close())
        self.loop.close()


def summarize(asked: ProviderRequest) -> Reply | None:
    """Answer the sidecar's own request for notes."""
    is_ours = b"Below is the earlier part of a conversation" in asked.body
    return Reply((Text("Notes: a river."),)) if is_ours else None


def is_system(message: Message | str) -> bool:
    return isinstance(message, dict) and message.get("role") == "system"


def is_words(message: Message) -> bool:
    """Tell whether the message is a question in words."""
    return message.get("role") == "user" and isinstance(message["content"], str)


def blocks_behind(messages: Sequence[Message] | str) -> dict[int, tuple[str, ...]]:
    """Return our blocks by how many of the client's turns stand before them."""
    if isinstance(messages, str):
        return {}
    found: dict[int, tuple[str, ...]] = {}
    count = 0
    for message in messages:
        if count == 0 and message.get("role") == "system":
            continue
        content = message.get("content")
        texts = (
            [content]
            if isinstance(content, str)
            else [part.get("text", "") for part in content or []]
        )
        ours = tuple([each for text in texts for each in BLOCK.findall(text)])
        is_own_turn = len(texts) == 1 and texts[0].startswith("<deuz_")
        count += not is_own_turn
        if ours:
            found[count] = found.get(count, ()) + ours
    return found


TestConversations = ConversationsMachine.TestCase
TestConversations.settings = settings(
    stateful_step_count=30, deadline=None, report_multiple_bugs=False
)
