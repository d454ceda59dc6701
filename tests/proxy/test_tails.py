"""Working memory through the whole line: where it stands, and that nothing keeps it."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from deuz_proxy.memory.working import WorkingMemory
from deuz_proxy.runtime import Runtime
from deuz_proxy.sources.words import words_of
from deuz_proxy.stores.memory_sqlite import SqliteMemory
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    ASK,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.histories import broken_rules
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Asked, GivenClient, Said

GOAL = "Ship the release on Friday"
OK = anthropic_answer()
KEY = (b"x-deuz-working-memory", b"task-1")
TAG = "<deuz_working_memory"
BOUND = "models: {m-bound: {context_window: 100000, binds_thinking: true}}"


@pytest_asyncio.fixture
async def notes() -> AsyncIterator[WorkingMemory]:
    store = await SqliteMemory(":memory:", words_of=words_of).open()
    yield WorkingMemory(store, clock=lambda: 1_000.0)
    await store.close()


async def write(
    notes: WorkingMemory, *operations: Any, key: str = "task-1", scope: str = "default"
) -> None:
    revision = (await notes.read(scope, key)).revision
    patched = await notes.patch(
        scope,
        key,
        {
            "operation_id": f"op-{revision}",
            "expected_revision": revision,
            "writer": "host",
            "operations": list(operations) or [{"op": "set-goal", "text": GOAL}],
        },
    )
    assert patched.status == "applied"


def line(notes: WorkingMemory, told: Told, **parts: Any) -> Runtime:
    config = parts.pop("config", None) or make_config()
    return make_runtime(config, told, notes=notes, **parts)


async def sent(
    runtime: Runtime, turns: list[Any], *lines: tuple[bytes, bytes], **members: Any
) -> list[Any]:
    """Send a request and return the messages that the upstream got."""
    got: list[Asked] = []
    talk = conversation(runtime) >> request(anthropic_body(turns, **members), *lines)
    talk <<= upstream_gets(lambda asked: not got.append(asked))  # type: ignore[func-returns-value]
    await (talk >> upstream_says(OK) << client_gets(is_whole))
    messages: list[Any] = got[0].payload["messages"]
    assert not broken_rules(messages)
    return messages


def is_whole(client: GivenClient) -> bool:
    return client.is_finished


async def test_the_notes_that_the_client_names_end_the_request(
    notes: WorkingMemory,
) -> None:
    told = Told()
    await write(notes)

    messages = await sent(line(notes, told), ASK, KEY)

    assert messages[:-1] == ASK
    assert GOAL in messages[-1]["content"]
    (placement,) = told.last.placements
    assert (placement.state, placement.turn) == ("tail", 0)
    assert placement.records == ("working-memory/goal",)
    assert placement.tokens > 0


async def test_each_request_ends_with_what_the_notes_are_now_and_keeps_nothing(
    notes: WorkingMemory,
) -> None:
    told = Told()
    runtime = line(notes, told)
    turns = list(ASK)
    for number in range(4):
        await write(notes, {"op": "set-goal", "text": f"Goal {number}"})

        messages = await sent(runtime, turns, KEY)

        assert json.dumps(messages).count(TAG) == 1
        assert f"Goal {number}" in messages[-1]["content"]
        turns += [assistant("Yes."), user(f"and {number}?")]
    verdicts = [each.verdict.verdict for each in told.finished if each.verdict]
    assert verdicts == ["first", "extended", "extended", "extended"]
    assert all(each.sidecar_mutations == 0 for each in told.finished)


async def test_without_a_word_of_the_client_the_conversation_names_them(
    notes: WorkingMemory,
) -> None:
    told = Told()
    runtime = line(notes, told)
    assert TAG not in json.dumps(await sent(runtime, ASK))
    name = told.last.conversation
    assert name is not None

    await write(notes, key=name)
    messages = await sent(runtime, [*ASK, assistant("Far."), user("How far?")])

    assert GOAL in messages[-1]["content"]
    other = await sent(runtime, [user("something else")])
    assert TAG not in json.dumps(other)


@pytest.mark.parametrize(
    "lines",
    [
        (KEY, (b"x-deuz-scope", b"ada")),
        ((b"x-deuz-working-memory", b"task-2"),),
        ((b"x-deuz-working-memory", b"no key at all"),),
        (),
    ],
)
async def test_notes_of_another_scope_or_key_are_not_there(
    notes: WorkingMemory, lines: tuple[tuple[bytes, bytes], ...]
) -> None:
    await write(notes)

    assert await sent(line(notes, Told()), ASK, *lines) == ASK


async def test_a_scope_has_its_own(notes: WorkingMemory) -> None:
    await write(notes, scope="default/ada")
    lines = (KEY, (b"x-deuz-scope", b"ada"))

    messages = await sent(line(notes, Told()), ASK, *lines)

    assert GOAL in messages[-1]["content"]


async def test_behind_a_block_they_are_last(notes: WorkingMemory) -> None:
    await write(notes)
    runtime = line(notes, Told(), sources=[FixedSource()])

    messages = await sent(runtime, ASK, KEY)

    assert [TAG in json.dumps(each) for each in messages] == [False, False, True]
    assert "Answer in metres." in messages[1]["content"]


async def test_tool_results_are_followed_by_them(notes: WorkingMemory) -> None:
    await write(notes)
    turns = [*ASK, tool_use("t"), tool_result("t", "far")]

    messages = await sent(line(notes, Told()), turns, KEY)

    assert messages[:-1] == turns
    assert GOAL in messages[-1]["content"]


async def test_in_the_form_part_they_join_the_users_turn(notes: WorkingMemory) -> None:
    await write(notes)
    config = make_config(placement="part")

    messages = await sent(line(notes, Told(), config=config), ASK, KEY)

    assert len(messages) == 1
    assert GOAL in messages[0]["content"][-1]["text"]


def bound_line(notes: WorkingMemory, told: Told, **parts: Any) -> Runtime:
    config = make_config(mode=parts.pop("mode", "compile"), more=BOUND)
    return line(notes, told, config=config, **parts)


async def test_where_each_request_is_cached_to_its_end_each_copy_stays(
    notes: WorkingMemory,
) -> None:
    runtime, cached = line(notes, Told()), {"cache_control": {"type": "ephemeral"}}
    await write(notes)
    first = await sent(runtime, ASK, KEY, **cached)

    later = await sent(runtime, [*ASK, assistant("a"), user("b")], KEY, **cached)

    assert TAG in json.dumps(first[-1])
    assert later[: len(first)] == first


async def test_a_model_that_binds_its_thinking_keeps_each_copy_in_its_place(
    notes: WorkingMemory,
) -> None:
    told = Told()
    runtime = bound_line(notes, told, sources=[FixedSource()])
    turns = list(ASK)
    before: list[Any] = []
    for number in range(4):
        await write(notes, {"op": "set-goal", "text": f"Goal {number}"})

        messages = await sent(runtime, turns, KEY, model="m-bound")

        # What stood before the thoughts of an answer stands there for good.
        assert messages[: len(before)] == before
        assert f"Goal {number}" in messages[-1]["content"]
        assert json.dumps(messages).count(TAG) == number + 1
        before = messages
        turns += [assistant("Yes."), user(f"and {number}?")]
    verdicts = [each.verdict.verdict for each in told.finished if each.verdict]
    assert verdicts == ["first", "extended", "extended", "extended"]
    assert all(each.sidecar_mutations == 0 for each in told.finished)
    kept = [p for p in told.last.placements if p.state == "kept"]
    assert [(p.turn, p.is_new) for p in kept] == [
        (0, False),
        (2, False),
        (4, False),
        (6, True),
    ]


async def test_the_same_history_again_ends_with_the_copy_that_it_had(
    notes: WorkingMemory,
) -> None:
    runtime = bound_line(notes, Told())
    await write(notes)
    first = await sent(runtime, ASK, KEY, model="m-bound")
    await write(notes, {"op": "set-goal", "text": "Another goal"})

    assert await sent(runtime, ASK, KEY, model="m-bound") == first


async def test_a_turn_answered_without_a_copy_gets_none_later(
    notes: WorkingMemory,
) -> None:
    runtime = bound_line(notes, Told(), sources=[FixedSource()])
    first = await sent(runtime, ASK, KEY, model="m-bound")
    await write(notes)

    assert await sent(runtime, ASK, KEY, model="m-bound") == first


async def test_kept_copies_outlive_their_notes_and_a_restart_of_the_line(
    notes: WorkingMemory,
) -> None:
    told = Told()
    await write(notes)
    runtime = bound_line(notes, told)
    first = await sent(runtime, ASK, KEY, model="m-bound")
    turns = [*ASK, assistant("Far."), user("How far?")]

    later = bound_line(notes, told, ledger=runtime.ledger)
    messages = await sent(later, turns, model="m-bound")

    assert messages == [*first, *turns[1:]]


async def test_what_was_refused_leaves_no_copy(notes: WorkingMemory) -> None:
    told = Told()
    await write(notes)
    runtime = bound_line(notes, told)
    body = anthropic_body(ASK, model="m-bound")
    talk = conversation(runtime) >> request(body, KEY)
    talk <<= upstream_gets(lambda asked: TAG in json.dumps(asked.payload))
    await (talk >> upstream_says(Said(529)) << client_gets(is_whole))
    assert [placement.state for placement in told.last.placements] == ["dropped"]

    assert await sent(runtime, ASK, model="m-bound") == ASK


async def test_past_many_copies_only_changed_notes_are_written_again(
    notes: WorkingMemory,
) -> None:
    await write(notes)
    runtime = bound_line(notes, Told())
    turns, counts = list(ASK), []
    for number in range(19):
        if number == 18:
            await write(notes, {"op": "set-goal", "text": "Another goal"})
        messages = await sent(runtime, turns, KEY, model="m-bound")
        counts.append(json.dumps(messages).count(TAG))
        turns += [assistant("Yes."), user(f"and {number}?")]

    assert counts == [*range(1, 17), 16, 16, 17]


async def test_the_form_of_kept_copies_is_fixed_for_their_conversation(
    notes: WorkingMemory,
) -> None:
    await write(notes)
    told = Told()
    runtime = bound_line(notes, told)
    first = await sent(runtime, ASK, KEY, model="m-bound")
    parted = line(
        notes,
        told,
        config=make_config(placement="part", more=BOUND),
        ledger=runtime.ledger,
    )
    turns = [*ASK, assistant("Far."), user("How far?")]

    messages = await sent(parted, turns, KEY, model="m-bound")

    assert messages[:2] == first
    assert [each["role"] for each in messages[2:]] == ["assistant", "user", "user"]


@pytest.mark.parametrize("mode", ["observe", "shadow"])
async def test_a_route_that_does_not_compile_sends_the_clients_own_bytes(
    notes: WorkingMemory, mode: str
) -> None:
    told = Told()
    await write(notes)

    messages = await sent(line(notes, told, config=make_config(mode=mode)), ASK, KEY)

    assert messages == ASK
    states = [placement.state for placement in told.last.placements]
    assert states == (["shadow"] if mode == "shadow" else [])


async def test_a_probe_gets_none(notes: WorkingMemory) -> None:
    await write(notes)

    assert await sent(line(notes, Told()), ASK, KEY, max_tokens=1) == ASK


async def test_the_budget_bounds_what_fills_them_but_not_the_goal(
    notes: WorkingMemory,
) -> None:
    items = [{"op": "add-observation", "text": f"{n} seen " * 60} for n in range(9)]
    await write(notes, {"op": "set-goal", "text": GOAL}, *items)
    told = Told()
    small = "context: {budget: {working_memory_tokens: 400}}"

    messages = await sent(line(notes, told, config=make_config(more=small)), ASK, KEY)

    text = messages[-1]["content"]
    assert GOAL in text
    assert "Kept, but without room here: observations" in text
    assert told.last.placements[0].tokens <= 400


async def test_what_they_take_is_no_room_for_records(notes: WorkingMemory) -> None:
    items = [{"op": "add-observation", "text": f"{n} seen " * 60} for n in range(5)]
    more = "context: {budget: {max_tokens: 900, working_memory_tokens: 800}}"
    config = make_config(more=more)
    budgets, taken = [], [0]
    for is_written in (False, True):
        told = Told()
        if is_written:
            await write(notes, *items)
        runtime = line(notes, told, config=config, sources=[FixedSource()])
        await sent(runtime, ASK, KEY)
        assert told.last.compile is not None
        budgets.append(told.last.compile.budget_tokens)
        taken = [p.tokens for p in told.last.placements if p.state == "tail"]

    assert budgets == [900, 900 - taken[0]]


async def test_estimates_count_them_and_what_is_cached_next_does_not(
    notes: WorkingMemory,
) -> None:
    told = Told()
    runtime = line(notes, told)
    await sent(runtime, ASK)
    plain = told.last.estimated_input_tokens
    await write(notes)

    await sent(runtime, ASK, KEY)

    taken = told.last.placements[0].tokens
    assert plain is not None
    assert told.last.estimated_input_tokens == plain + taken


async def test_a_store_that_fails_is_counted_and_the_request_goes_on(
    notes: WorkingMemory,
) -> None:
    told = Told()
    store = await SqliteMemory(":memory:", words_of=words_of).open()
    await store.close()
    runtime = line(WorkingMemory(store, clock=lambda: 1.0), told)

    assert await sent(runtime, ASK, KEY) == ASK

    assert told.faults == [("recall", "store_failed")]


async def test_an_overflow_is_recovered_with_them_at_the_end(
    notes: WorkingMemory,
) -> None:
    await write(notes)
    long = "The river runs on. " * 400
    turns: list[Any] = [user("Read on.")]
    for number in range(8):
        turns += [tool_use(f"t{number}"), tool_result(f"t{number}", long)]
    got: list[Asked] = []
    more = "overflow: {layers: [prune-tool-results]}"
    runtime = line(notes, Told(), config=make_config(more=more))
    talk = conversation(runtime) >> request(anthropic_body(turns), KEY)
    talk <<= upstream_gets(lambda asked: TAG in json.dumps(asked.payload))
    talk >>= upstream_says(anthropic_overflow())
    talk <<= upstream_gets(lambda asked: not got.append(asked))  # type: ignore[func-returns-value]
    await (talk >> upstream_says(OK) << client_gets(is_whole))

    messages = got[0].payload["messages"]
    assert json.dumps(messages).count(TAG) == 1
    assert GOAL in json.dumps(messages[-1])


async def test_the_chat_wire_gets_them_as_a_users_turn(notes: WorkingMemory) -> None:
    await write(notes)
    runtime = replace(line(notes, Told()))
    got: list[Asked] = []
    talk = conversation(runtime) >> request(
        chat_body(ASK), KEY, target="/v1/chat/completions"
    )
    talk <<= upstream_gets(lambda asked: not got.append(asked))  # type: ignore[func-returns-value]
    await (talk >> upstream_says(OK) << client_gets(is_whole))

    assert got[0].payload["messages"][-1]["role"] == "user"
    assert GOAL in got[0].payload["messages"][-1]["content"]
