"""Recovery as conversations: one second pass, or the first answer byte for byte."""

import asyncio
import json
from typing import Any

import pytest

from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.runtime import Runtime
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    tool_result,
    tool_use,
    user,
)
from deuz_testing.conversation import (
    LONG,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    is_shorter,
    is_summary,
    request,
    told_turns,
    tool_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.histories import broken_rules
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import Asked, Said

OK = anthropic_answer()


NOTES = anthropic_answer("They talk about rivers.")


OVERFLOW = anthropic_overflow()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runtime(told: Told) -> Runtime:
    return make_runtime(make_config(), told)


async def test_a_rejected_history_is_summarised_sent_again_and_kept(
    runtime: Runtime, told: Told
) -> None:
    turns = told_turns()
    talk = conversation(runtime)
    talk >>= request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    talk >>= upstream_says(OK)
    await (talk << client_gets(OK.chunks[0]))

    finished = told.last
    assert [(o.stage, o.outcome) for o in finished.overflows] == [
        ("rejected", "recovered")
    ]
    assert (
        finished.overflows[0].limit_tokens,
        finished.overflows[0].requested_tokens,
    ) == (
        200_000,
        250_000,
    )
    assert [c.purpose for c in finished.upstream_calls] == [
        "chat",
        "summarize",
        "retry",
    ]
    assert finished.upstream_calls[1].usage is not None
    assert [c.layer for c in finished.compactions] == ["summarize"]
    before, after = finished.compactions[0].tokens_before, finished.compactions[-1]
    assert after.tokens_after < before
    assert all(reply.is_closed for reply in talk.upstream.replies)


async def test_what_helped_is_reused_on_the_next_turns_for_nothing(
    runtime: Runtime, told: Told
) -> None:
    turns = told_turns()
    talk = conversation(runtime)
    talk >>= request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    talk >>= upstream_says(OK)
    await (talk << client_gets(OK.chunks[0]))
    heads = set()

    def keep_head(asked: Asked) -> bool:
        heads.add(asked.body.split(b"They talk about rivers.")[0])
        return bool(is_shorter(turns)(asked))

    for number in range(3):
        turns = [*turns, assistant("Fine."), user(f"More {number}.")]
        talk = conversation(runtime) >> request(anthropic_body(turns))
        talk <<= upstream_gets(keep_head)
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

        assert [c.purpose for c in told.last.upstream_calls] == ["chat"]
        assert told.last.verdict is not None
        assert told.last.verdict.verdict == "extended"
    assert len(heads) == 1
    assert told.last.sidecar_mutations == 0


async def test_tool_results_are_pruned_before_anything_is_summarised(
    told: Told,
) -> None:
    config = make_config(more="overflow: {layers: [prune-tool-results]}")
    runtime = make_runtime(config, told)
    turns = tool_turns()

    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(anthropic_body(turns))
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [c.layer for c in told.last.compactions] == ["prune-tool-results"]
    assert [c.purpose for c in told.last.upstream_calls] == ["chat", "retry"]


async def test_a_second_recovery_of_a_conversation_keeps_the_stubs_it_has(
    told: Told,
) -> None:
    config = make_config(more="overflow: {layers: [prune-tool-results]}")
    runtime = make_runtime(config, told)
    turns = tool_turns()
    sent: list[Any] = []

    def keep(asked: Asked) -> bool:
        sent.append(asked.payload["messages"])
        return not broken_rules(sent[-1])

    for number in (8, 9, 10):
        talk = conversation(runtime) >> request(anthropic_body(turns))
        talk <<= upstream_gets(keep)
        talk >>= upstream_says(OVERFLOW)
        talk <<= upstream_gets(keep)
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
        turns = [
            *turns,
            tool_use(f"t{number}"),
            tool_result(f"t{number}", LONG),
        ]

    stubs = [
        [m for m in messages if LONG not in json.dumps(m)] for messages in sent[1::2]
    ]
    assert stubs[0][:4] == stubs[1][:4] == stubs[2][:4]
    assert len(stubs[0]) < len(stubs[1]) < len(stubs[2])


IN_STREAM = Said(
    200,
    (
        b"event: message_start\ndata: "
        b'{"type":"message_start","message":{"id":"m","model":"x"}}\n\n',
        b'event: ping\ndata: {"type":"ping"}\n\n',
        b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"prompt is too long: 250000 tokens > 200000 maximum"}}\n\n',
    ),
    ((b"Content-Type", b"text/event-stream"),),
)


async def test_an_overflow_in_a_stream_is_recovered_before_the_client_sees_a_byte(
    runtime: Runtime, told: Told
) -> None:
    turns = told_turns()
    talk = conversation(runtime) >> request(anthropic_body(turns, stream=True))
    talk <<= upstream_gets(lambda asked: asked.payload["stream"])
    talk >>= upstream_says(IN_STREAM)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns, stream=True))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert [(o.stage, o.outcome) for o in told.last.overflows] == [
        ("in_stream", "recovered")
    ]


SECONDS: dict[str, Any] = {
    "overflow": OVERFLOW,
    "busy": Said(429, (b'{"type":"error","error":{"type":"rate_limit_error"}}',)),
    "broken": UpstreamBroken(upstream="u"),
    "stream error": IN_STREAM,
}


@pytest.mark.parametrize("second", SECONDS.values(), ids=SECONDS)
async def test_there_is_one_attempt_and_the_clients_own_error_wins(
    runtime: Runtime, told: Told, second: Any
) -> None:
    turns = told_turns()
    body = anthropic_body(turns)
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    talk >>= upstream_says(second)
    await (talk << client_gets(OVERFLOW.chunks[0]))

    assert told.last.overflows[0].outcome == "surfaced"
    assert [c.purpose for c in told.last.upstream_calls] == [
        "chat",
        "summarize",
        "retry",
    ]
    assert told.last.compactions == ()
    # Nothing of it was kept: the next request goes out as the client wrote it.
    talk = conversation(runtime) >> request(body)
    await (
        talk << upstream_gets(body) >> upstream_says(OK) << client_gets(OK.chunks[0])
    )


async def test_what_cannot_fit_is_known_before_trying(
    runtime: Runtime, told: Told
) -> None:
    body = anthropic_body([user(LONG * 20), assistant("a"), user("b")])
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(anthropic_overflow(250_000, 100))
    await (talk << client_gets(anthropic_overflow(250_000, 100).chunks[0]))

    assert told.last.overflows[0].outcome == "cannot_fit"
    assert len(told.last.upstream_calls) == 1


async def test_what_nothing_can_shorten_is_surfaced_without_a_call(
    runtime: Runtime, told: Told
) -> None:
    body = anthropic_body([user("a"), assistant("b"), user("c")])
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    await (talk << client_gets(OVERFLOW.chunks[0]))

    assert told.last.overflows[0].outcome == "surfaced"
    assert len(told.last.upstream_calls) == 1


async def test_an_output_limit_that_is_too_large_is_no_case_for_recovery(
    runtime: Runtime, told: Told
) -> None:
    message = (
        "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens"
    )
    error = {"type": "invalid_request_error", "message": message}
    said = Said(400, (json.dumps({"type": "error", "error": error}).encode(),))
    body = anthropic_body(told_turns())

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(said) << client_gets(said.chunks[0]))

    assert len(told.last.upstream_calls) == 1


async def test_new_context_is_compiled_anew_for_what_is_free_then(told: Told) -> None:
    source = FixedSource()
    runtime = make_runtime(make_config(), told, sources=[source])
    turns = told_turns()

    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(lambda asked: b"Answer in metres." in asked.body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(
        lambda asked: (
            b"Answer in metres." in asked.body
            and len(asked.body) < len(anthropic_body(turns))
        )
    )
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert len(source.asked) == 1
    assert told.last.compile is not None
    assert told.last.compile.refresh_reason == "overflow-retry"
    assert [p.is_new for p in told.last.placements] == [True]


async def test_a_client_that_leaves_during_recovery_leaves_nothing_open(
    runtime: Runtime, told: Told
) -> None:
    body = anthropic_body(told_turns())
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    await (talk << upstream_gets(is_summary))
    assert talk.serving is not None
    talk.serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await talk.serving

    assert [f.outcome for f in told.finished] == ["client_closed"]
    assert all(reply.is_closed for reply in talk.upstream.replies)


async def test_a_fault_of_ours_in_recovery_surfaces_the_first_answer(
    told: Told,
) -> None:
    class Once:
        """Works while the request is laid out, fails in recovery."""

        def __init__(self, tracker: Any) -> None:
            self._tracker = tracker
            self.kept_text = tracker.kept_text
            self.sights = 0

        def sight(self, *args: Any, **named: Any) -> Any:
            self.sights += 1
            if self.sights > 1:
                raise RuntimeError("secret")
            return self._tracker.sight(*args, **named)

        def record(self, *args: Any, **named: Any) -> None:
            self._tracker.record(*args, **named)

        def note_frontier(self, conversation: str, tokens: int) -> None:
            self._tracker.note_frontier(conversation, tokens)

    plain = make_runtime(make_config(), told)
    runtime = make_runtime(make_config(), told, tracker=Once(plain.tracker))
    body = anthropic_body(told_turns())

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    await (talk << client_gets(OVERFLOW.chunks[0]))

    assert ("recover", "sidecar_fault") in told.faults
    assert told.last.overflows[0].outcome == "surfaced"


def vague_overflow(*, requested: int | None = None) -> Said:
    """Return an overflow whose words have no limit, or no sensible one."""
    message = "Your input exceeds the context window of this model."
    if requested is not None:
        message = f"prompt is too long: {requested} tokens > {requested} maximum"
    error = {"type": "invalid_request_error", "message": message}
    text = json.dumps({"type": "error", "error": error}).encode()
    return Said(400, (text,))


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "nobody-knows"])
async def test_an_error_without_numbers_is_recovered_by_the_table_or_by_all_layers(
    runtime: Runtime, told: Told, model: str
) -> None:
    overflow = vague_overflow()
    turns = told_turns()
    body = anthropic_body(turns, model=model)
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(overflow)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns, model=model))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.overflows[0].limit_tokens is None
    assert told.last.overflows[0].outcome == "recovered"


async def test_new_context_of_an_unknown_window_is_bounded_by_its_ceiling(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told, sources=[FixedSource()])
    turns = told_turns()

    talk = conversation(runtime) >> request(anthropic_body(turns, model="odd"))
    talk <<= upstream_gets(lambda asked: b"Answer in metres." in asked.body)
    talk >>= upstream_says(vague_overflow())
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(lambda asked: b"Answer in metres." in asked.body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))


async def test_numbers_that_contradict_the_refusal_are_not_believed(
    runtime: Runtime, told: Told
) -> None:
    turns = told_turns(12)
    body = anthropic_body(turns)
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(vague_overflow(requested=8_000))
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(is_shorter(turns))
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    assert told.last.overflows[0].outcome == "recovered"


async def test_a_later_overflow_rolls_the_summary_on_and_never_stacks_two(
    runtime: Runtime, told: Told
) -> None:
    turns = told_turns()
    sent: list[Asked] = []

    def keep(asked: Asked) -> bool:
        sent.append(asked)
        return True

    for notes in ("They talk about rivers.", "And about mills."):
        talk = conversation(runtime) >> request(anthropic_body(turns))
        talk <<= upstream_gets(keep)
        talk >>= upstream_says(OVERFLOW)
        talk <<= upstream_gets(keep)
        talk >>= upstream_says(anthropic_answer(notes))
        talk <<= upstream_gets(is_shorter(turns))
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
        turns = [*turns, *told_turns(6)[1:]]

    first_again, asked_for = sent[2], sent[3]
    assert b"They talk about rivers." in first_again.body
    assert b"They talk about rivers." in asked_for.body
    turns = [*turns, assistant("Fine."), user("More.")]
    talk = conversation(runtime) >> request(anthropic_body(turns))
    talk <<= upstream_gets(keep)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
    assert b"And about mills." in sent[-1].body
    assert b"They talk about rivers." not in sent[-1].body
