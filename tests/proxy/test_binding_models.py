"""Models that bind thinking to all before it: the whole line, by the provider's rules.

The fake provider checks signatures and order. That nothing in front of a replayed
thought has changed, which it cannot see in one request, is checked here.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.demo.provider import ProviderRequest, Reply, Text, ToolCall
from deuz_proxy.demo.provider.exchange import Thinking
from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.observe.watch import Watch
from deuz_proxy.serve import serve_call
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import anthropic_body, tool_result, user
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.modelled import ModelledUpstreams
from deuz_testing.scripted import GivenClient, GivenRequest

LONG = "The river runs past the mill and on to the sea. " * 30
TOOL = {"name": "look", "description": "", "input_schema": {"type": "object"}}
WINDOW_TOKENS = 3_000
SUMMARY_MARK = "Notes: a river."
TAG = "<deuz_working_memory"
NOTES_KEY = (b"x-deuz-working-memory", b"task-1")


class Talk:
    """A client that replays its history, thoughts included, and what became of it."""

    def __init__(self, *, model: str = "claude-opus-5-5", **parts: Any) -> None:
        self.told = Told()
        self.model = model
        self.upstreams = ModelledUpstreams(
            lambda: 1_000.0, window_tokens=WINDOW_TOKENS, script=self.answer
        )
        parts.setdefault("sources", [FixedSource()])
        self.runtime = make_runtime(
            make_config(), self.told, upstreams=self.upstreams, **parts
        )
        self.turns: list[Any] = []
        self.bound: dict[str, list[Any]] = {}
        self.thoughts = 0

    def answer(self, asked: ProviderRequest) -> Reply:
        if "tools" not in asked.payload:
            return Reply((Text(SUMMARY_MARK),))
        self.thoughts += 1
        thought = f"thought {self.thoughts}"
        self.bound[thought] = asked.payload["messages"]
        newest = [message["content"] for message in asked.payload["messages"][-3:]]
        is_call = "use the tool" in newest and isinstance(newest[-1], str)
        said = ToolCall("look", {}) if is_call else Text(f"Far, {self.thoughts}.")
        return Reply((Thinking(thought), said))

    async def say(self, *turns: Any) -> list[Any]:
        """Send the history with these turns; return what was sent of it at last."""
        self.turns += turns
        body = anthropic_body(
            self.turns,
            model=self.model,
            max_tokens=200,
            thinking={"type": "adaptive"},
            tools=[TOOL],
        )
        headers = ((b"x-api-key", b"key-1"), NOTES_KEY)
        client = GivenClient()
        watch = Watch(self.runtime.monotonic)
        before = len(self.upstreams.log)
        incoming = GivenRequest(body, "/v1/messages", headers)
        await serve_call(incoming, client, self.runtime, watch)
        for logged in self.upstreams.log[before:]:
            assert logged.rule in {None, "overflow"}, logged
        assert client.status == 200, client.body
        content = json.loads(client.body)["content"]
        self.turns.append({"role": "assistant", "content": content})
        messages: list[Any] = json.loads(self.upstreams.log[-1].body)["messages"]
        self.check_thoughts(messages)
        return messages

    def check_thoughts(self, messages: list[Any]) -> None:
        for place, message in enumerate(messages):
            for block in message["content"]:
                if isinstance(block, dict) and block["type"] == "thinking":
                    assert messages[:place] == self.bound[block["thinking"]]

    async def fill(self) -> list[Any]:
        """Talk until an overflow was recovered; return what was sent then."""
        for number in range(20):
            sent = await self.say(user(f"{number}: {LONG}"))
            if self.told.last.overflows:
                return sent
        raise AssertionError("it never overflowed")

    @property
    def outcomes(self) -> list[str]:
        return [o.outcome for each in self.told.finished for o in each.overflows]


@pytest_asyncio.fixture
async def notes() -> AsyncIterator[WorkingMemory]:
    store = await SqliteMemory(":memory:", words_of=words_of).open()
    yield WorkingMemory(store, clock=lambda: 1_000.0)
    await store.close()


async def set_goal(notes: WorkingMemory, goal: str) -> None:
    revision = (await notes.read("default", "task-1")).revision
    patch = {
        "operation_id": f"op-{revision}",
        "expected_revision": revision,
        "writer": "host",
        "operations": [{"op": "set-goal", "text": goal}],
    }
    assert (await notes.patch("default", "task-1", patch)).status == "applied"


def is_thought(message: Any) -> bool:
    return "thinking" in json.dumps(message)


async def test_one_summary_stands_for_all_but_the_pending_turn() -> None:
    talk = Talk()

    sent = await talk.fill()

    assert talk.outcomes == ["recovered"]
    assert [c.layer for c in talk.told.last.compactions] == ["summarize"]
    assert SUMMARY_MARK in sent[0]["content"]
    assert sent[1] == talk.turns[-2]
    assert not any(is_thought(message) for message in sent)


async def test_the_fold_is_reused_for_nothing_and_new_thoughts_stay_valid() -> None:
    talk = Talk()
    folded = await talk.fill()
    calls = len(talk.upstreams.log)

    await talk.say(user("And how far?"))
    sent = await talk.say(user("And then?"))

    assert sent[: len(folded)] == folded
    assert sum(is_thought(message) for message in sent) == 2
    assert len(talk.upstreams.log) == calls + 2
    verdicts = [each.verdict for each in talk.told.finished[-2:]]
    assert [v and v.verdict for v in verdicts] == ["extended", "extended"]
    assert all(each.sidecar_mutations == 0 for each in talk.told.finished)


async def test_a_second_overflow_merges_the_summary_never_stacks_it() -> None:
    talk = Talk()
    await talk.fill()

    sent = await talk.fill()

    assert talk.outcomes == ["recovered", "recovered"]
    assert json.dumps(sent).count(SUMMARY_MARK) == 1
    assert sent[-1] == talk.turns[-2] or sent[-2] == talk.turns[-2]


async def test_a_history_that_ends_in_a_result_is_summarised_whole() -> None:
    talk = Talk()
    for number in range(3):
        await talk.say(user(f"{number}: {LONG}"))
    await talk.say(user("use the tool"))
    call = next(b for b in talk.turns[-1]["content"] if b["type"] == "tool_use")

    sent = await talk.say(tool_result(call["id"], LONG * 8))

    assert talk.outcomes == ["recovered"]
    assert len(sent) == 1
    assert SUMMARY_MARK in sent[0]["content"]
    assert "use the tool" in sent[0]["content"]
    assert (await talk.say(user("And now?")))[:1] == sent


async def test_system_turns_of_the_middle_stay_behind_the_pending_turn() -> None:
    talk = Talk()
    reminder = {"role": "system", "content": "Answer in metres, always."}
    await talk.say(user("How far is it?"), reminder)

    sent = await talk.fill()
    later = await talk.say(user("And then?"))

    summary, pending, block, last = sent
    assert SUMMARY_MARK in summary["content"]
    assert (pending, last) == (talk.turns[-4], reminder)
    assert "Answer in metres.\n" in block["content"]
    assert later[:4] == sent
    assert talk.told.last.sidecar_mutations == 0


async def test_copies_of_working_memory_go_with_the_fold_and_come_back(
    notes: WorkingMemory,
) -> None:
    await set_goal(notes, "Ship on Friday")
    talk = Talk(notes=notes)

    sent = await talk.fill()
    await set_goal(notes, "Ship on Monday")
    later = await talk.say(user("And then?"))

    assert talk.outcomes == ["recovered"]
    assert json.dumps(sent).count(TAG) == 1
    assert TAG in json.dumps(sent[-1])
    assert later[: len(sent)] == sent
    assert "Ship on Monday" in json.dumps(later[-1])


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-sonnet-4-5"])
async def test_other_models_keep_the_three_layers(model: str) -> None:
    talk = Talk(model=model)
    talk.check_thoughts = lambda messages: None  # type: ignore[method-assign]

    sent = await talk.fill()

    assert talk.outcomes == ["recovered"]
    assert len(sent) > 2
