"""Compaction ahead of an overflow, as conversations through the line."""

from collections.abc import Callable
from typing import Any

import pytest

from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    is_shorter,
    is_summary,
    parts_of,
    request,
    told_turns,
    tool_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Asked, Said

OK = anthropic_answer()
NOTES = anthropic_answer("They talk about rivers.")
TURNS = told_turns()
BODY = anthropic_body(TURNS)
MORE = """
models: {{claude-sonnet-4-5: {{context_window: {window}}}}}
overflow: {{compact_at: {share}, keep_recent_steps: {steps}}}
"""


def line(
    told: Told,
    *,
    window: int = 8_000,
    share: str = "0.5",
    steps: int = 1,
    mode: str = "compile",
    **parts: Any,
) -> Runtime:
    more = MORE.format(window=window, share=share, steps=steps)
    return make_runtime(make_config(mode=mode, more=more), told, **parts)


async def is_sent_as_it_is(runtime: Runtime, body: bytes = BODY) -> None:
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def shorten(runtime: Runtime, check: Callable[[Asked], object]) -> None:
    talk = conversation(runtime) >> request(BODY)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(check)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


def layers_of(event: RequestFinished) -> list[tuple[str, str]]:
    return [(c.layer, c.trigger) for c in event.compactions]


async def test_a_history_over_the_share_is_shortened_before_it_is_sent() -> None:
    told = Told()

    await shorten(line(told), is_shorter(TURNS))

    assert layers_of(told.last) == [("summarize", "threshold")]
    (compaction,) = told.last.compactions
    assert compaction.tokens_after < compaction.tokens_before
    assert [c.purpose for c in told.last.upstream_calls] == ["summarize", "chat"]
    assert told.last.overflows == ()
    assert told.last.sidecar_mutations == 0


async def test_the_next_turns_get_it_for_nothing() -> None:
    told = Told()
    runtime = line(told)
    sent: list[bytes] = []

    def kept(asked: Asked) -> bool:
        sent.append(asked.body or b"")
        return True

    await shorten(runtime, kept)
    turns = [*TURNS, assistant("Fine."), user("and on?")]
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(kept)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert sent[1].startswith(sent[0].removesuffix(b"]}"))
    assert told.last.verdict is not None
    assert told.last.verdict.verdict == "extended"


async def test_the_break_that_it_makes_is_told_as_meant() -> None:
    told = Told()
    runtime = line(told)
    await is_sent_as_it_is(runtime, anthropic_body(TURNS[:5]))

    await shorten(runtime, is_shorter(TURNS))

    verdict = told.last.verdict
    assert verdict is not None
    assert (verdict.cause, verdict.owner) == ("overflow_recovery", "sidecar")
    assert told.last.sidecar_mutations == 0


async def test_results_of_tools_are_pruned_without_a_call() -> None:
    told = Told()
    turns = tool_turns()

    talk = conversation(line(told)) >> request(anthropic_body(turns))
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert layers_of(told.last) == [("prune-tool-results", "threshold")]


async def test_a_new_block_stands_in_the_shortened_request() -> None:
    told = Told()
    runtime = line(told, sources=[FixedSource()])

    await shorten(runtime, lambda asked: b"Answer in metres." in (asked.body or b""))

    assert [(p.turn, p.is_new) for p in told.last.placements] == [(16, True)]
    assert told.last.compile is not None
    assert told.last.compile.selected == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"share": "null"},
        {"window": 100_000},
        {"mode": "shadow"},
        {"mode": "observe"},
        # All that is not protected together would not bring it below the share.
        {"steps": 8},
    ],
    ids=str,
)
async def test_else_the_clients_bytes_go_out(changes: dict[str, Any]) -> None:
    told = Told()

    await is_sent_as_it_is(line(told, **changes))

    assert told.last.compactions == ()
    assert told.faults == []


async def test_a_window_that_nobody_knows_is_not_guessed() -> None:
    await is_sent_as_it_is(line(Told()), anthropic_body(TURNS, model="unheard-of"))


async def test_a_probe_is_left_alone() -> None:
    await is_sent_as_it_is(line(Told()), anthropic_body(TURNS, max_tokens=1))


@pytest.mark.parametrize("answer", [Said(500), anthropic_answer("")])
async def test_without_a_summary_it_goes_on_as_it_was(answer: Said) -> None:
    told = Told()

    talk = conversation(line(told)) >> request(BODY)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(answer)
    talk <<= upstream_gets(BODY)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.compactions == ()
    assert [c.purpose for c in told.last.upstream_calls] == ["summarize", "chat"]


async def test_what_overflows_nevertheless_is_recovered_and_all_of_it_kept() -> None:
    told = Told()
    runtime = line(told, window=12_000, share="0.45")
    turns = [*tool_turns(6), assistant("Read."), *told_turns(4)]
    body = anthropic_body(turns)
    talk = conversation(runtime) >> request(body)
    talk <<= upstream_gets(is_shorter(turns))
    talk >>= upstream_says(anthropic_overflow(9_000, 6_000))
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    triggers = [trigger for _, trigger in layers_of(told.last)]
    assert triggers[0] == "threshold"
    assert triggers[-1] == "overflow"
    assert [o.outcome for o in told.last.overflows] == ["recovered"]
    # Without the setting the ledger alone does it.
    later = line(told, share="null", window=12_000, **parts_of(runtime))
    talk = conversation(later) >> request(body) << upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
