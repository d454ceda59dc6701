import contextlib
import json
from typing import Any

import pytest

from deuz_compiler import Baseline, Usage, Verdict
from deuz_proxy.calls import Call, Compiled
from deuz_proxy.errors import UpstreamUnreachable
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime
from deuz_proxy.serve import serve_call
from deuz_proxy.stages.compile import compile_call
from deuz_proxy.stages.recall import recall_context
from deuz_proxy.stages.settle import keep_call
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    user,
)
from deuz_testing.conversation import (
    admitted,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    request,
    told_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import FixedSource, Told, make_config, make_runtime
from deuz_testing.scripted import GivenClient, GivenRequest, Said, ScriptedUpstreams

CHAT = "/v1/chat/completions"


TURNS = [user("word " * 4000)]


OK = anthropic_answer()


OVERFLOW = anthropic_overflow()


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


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runtime(told: Told) -> Runtime:
    return make_runtime(make_config(mode="observe"), told)


def cached(read: int, write: int | None = None) -> dict[str, Any]:
    usage = {"cache_read_input_tokens": read}
    return usage if write is None else usage | {"cache_creation_input_tokens": write}


def chat_answer(**usage: Any) -> Said:
    choice = {"index": 0, "finish_reason": "stop", "message": assistant("Fine.")}
    body = {"id": "c", "model": "gpt-4o", "choices": [choice], "usage": usage}
    return Said(chunks=(json.dumps(body).encode(),))


async def settled(
    runtime: Runtime, told: Told, body: bytes, said: Said, target: str = "/v1/messages"
) -> RequestFinished:
    talk = conversation(runtime) >> request(body, target=target)
    talk <<= upstream_gets(body)
    await (talk >> upstream_says(said) << client_gets(said.chunks[0]))
    return told.last


def marked_body(turns: list[Any]) -> bytes:
    return anthropic_body(turns, cache_control={"type": "ephemeral"})


async def test_usage_is_told_in_disjoint_counts(runtime: Runtime, told: Told) -> None:
    said = anthropic_answer(
        cache_read_input_tokens=128_955, cache_creation_input_tokens=1_253
    )

    finished = await settled(runtime, told, anthropic_body(TURNS), said)

    usage = finished.usage
    assert usage is not None
    assert (usage.input_uncached, usage.cache_read, usage.cache_write) == (
        10,
        128_955,
        1_253,
    )
    assert (finished.usage_status, finished.finish_reason) == ("reported", "end_turn")


async def test_what_was_not_said_is_absent_not_zero(
    runtime: Runtime, told: Told
) -> None:
    finished = await settled(
        runtime, told, anthropic_body(TURNS), Said(chunks=(b'{"type":"message"}',))
    )

    assert finished.usage is None
    assert finished.usage_status == "absent"


async def test_an_odd_count_is_an_anomaly_and_nothing_is_learned_from_it(
    runtime: Runtime, told: Told
) -> None:
    before = runtime.estimates.calibrated("gpt-4o", 1000)

    finished = await settled(
        runtime,
        told,
        chat_body(TURNS),
        chat_answer(prompt_tokens=-50, completion_tokens=1),
        CHAT,
    )

    assert finished.usage_status == "anomalous"
    assert runtime.estimates.calibrated("gpt-4o", 1000) == before


async def test_estimates_move_towards_what_the_provider_counts(
    runtime: Runtime, told: Told
) -> None:
    said = chat_answer(prompt_tokens=8_000, completion_tokens=1)
    for _ in range(8):
        await settled(runtime, told, chat_body(TURNS), said, CHAT)

    estimated = told.last.estimated_input_tokens
    assert estimated is not None
    told_now = runtime.estimates.calibrated("gpt-4o", estimated)
    assert abs(told_now - 8_000) < abs(estimated - 8_000)


async def test_a_silently_cut_prompt_is_told_and_nothing_is_learned_from_it(
    runtime: Runtime, told: Told
) -> None:
    turns = [user("word " * 40_000)]
    before = runtime.estimates.calibrated("gpt-4o", 1000)

    finished = await settled(
        runtime,
        told,
        chat_body(turns),
        chat_answer(prompt_tokens=2_051, completion_tokens=9),
        CHAT,
    )

    assert [(o.stage, o.outcome) for o in finished.overflows] == [
        ("silent", "observed")
    ]
    assert runtime.estimates.calibrated("gpt-4o", 1000) == before


@pytest.mark.parametrize(
    ("usages", "expected", "missed"),
    [
        # What was read and written is what the next request may expect.
        ((cached(1_000, 3_000), cached(4_000, 50)), 4_000, 0),
        ((cached(0, 4_000), cached(0, 4_050)), 4_000, 4_000),
        (({}, cached(9)), None, None),
        ((cached(0, 0), cached(9)), None, None),
    ],
)
async def test_the_providers_own_counts_say_what_the_next_request_may_expect(
    runtime: Runtime,
    told: Told,
    usages: tuple[dict[str, Any], dict[str, Any]],
    expected: int | None,
    missed: int | None,
) -> None:
    first, second = usages
    later = [*TURNS, assistant("a"), user("b")]
    await settled(runtime, told, marked_body(TURNS), anthropic_answer(**first))

    finished = await settled(
        runtime, told, marked_body(later), anthropic_answer(**second)
    )

    verdict = finished.verdict
    assert verdict is not None
    assert verdict.verdict == "extended"
    assert (verdict.expected_tokens, verdict.missed_tokens) == (expected, missed)
    assert (verdict.owner == "provider") == bool(missed)


async def test_without_a_marker_nothing_could_be_read_and_nobody_is_blamed(
    runtime: Runtime, told: Told
) -> None:
    later = [*TURNS, assistant("a"), user("b")]
    await settled(
        runtime, told, marked_body(TURNS), anthropic_answer(**cached(0, 4_000))
    )

    finished = await settled(
        runtime, told, anthropic_body(later), anthropic_answer(**cached(0, 0))
    )

    assert finished.verdict == Verdict("extended")


@pytest.mark.parametrize(("tokens", "expected"), [(4_300, 4_224), (1_000, None)])
async def test_openai_counts_its_cache_in_steps_from_a_least_length_on(
    runtime: Runtime, told: Told, tokens: int, expected: int | None
) -> None:
    later = [*TURNS, assistant("a"), user("b")]
    cached = {"cached_tokens": 0}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    said = chat_answer(**usage, prompt_tokens_details=cached)
    await settled(runtime, told, chat_body(TURNS), said, CHAT)

    finished = await settled(runtime, told, chat_body(later), said, CHAT)

    assert finished.verdict is not None
    assert finished.verdict.expected_tokens == expected


def kept_baseline(call: Call, compiled: Compiled, runtime: Runtime) -> Baseline:
    """Return what a later request of the conversation is compared with."""
    assert call.envelope is not None
    assert compiled.inbound is not None
    keys = call.chain[call.envelope.lead :]
    sighting = runtime.tracker.sight(
        keys, compiled.inbound, session=None, is_probe=False
    )
    return sighting.baselines[0]


async def test_of_what_was_sent_with_blocks_the_clients_own_prefix_is_told(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told, sources=[FixedSource()])
    call = await admitted(runtime, GivenRequest(anthropic_body(TURNS)))
    compiled = compile_call(call, await recall_context(call, runtime), runtime)

    await keep_call(call, compiled, runtime)

    kept = kept_baseline(call, compiled, runtime)
    assert compiled.inbound != compiled.outbound == kept.outbound
    assert kept.inbound == compiled.inbound
    # Told by the other, not kept beside it.
    assert isinstance(kept.plain, bytes)


@pytest.mark.parametrize(("marker", "seconds"), [("", 300.0), (',"ttl":"1h"', 3600.0)])
async def test_a_long_marker_makes_the_baseline_live_longer(
    runtime: Runtime, marker: str, seconds: float
) -> None:
    body = (
        '{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":'
        f'"text","text":"q","cache_control":{{"type":"ephemeral"{marker}}}}}]}}]}}'
    ).encode()
    call = await admitted(runtime, GivenRequest(body))
    compiled = compile_call(call, await recall_context(call, runtime), runtime)

    await keep_call(call, compiled, runtime)

    assert kept_baseline(call, compiled, runtime).ttl_seconds == seconds


async def test_what_is_not_understood_leaves_nothing_behind(runtime: Runtime) -> None:
    call = await admitted(runtime, GivenRequest(b"not json"))
    compiled = compile_call(call, await recall_context(call, runtime), runtime)

    await keep_call(call, compiled, runtime)

    assert isinstance(runtime.tracker, Tracker)
    assert len(runtime.tracker) == 0


async def test_a_probe_is_a_side_call_and_no_measure_for_the_conversation(
    runtime: Runtime, told: Told
) -> None:
    probe = anthropic_body([user("quota?")], max_tokens=1)

    finished = await settled(runtime, told, probe, anthropic_answer())

    assert finished.verdict is not None
    assert finished.verdict.verdict == "side_call"


async def test_the_system_text_of_a_break_is_explained_from_what_was_kept(
    runtime: Runtime, told: Told
) -> None:
    at = "It is 10:15 now. Be kind."
    await settled(runtime, told, anthropic_body(TURNS, system=at), anthropic_answer())
    body = anthropic_body(TURNS, system=at.replace("10:15", "10:16"))

    finished = await settled(runtime, told, body, anthropic_answer())

    verdict = finished.verdict
    assert verdict is not None
    assert (verdict.segment, verdict.cause, verdict.owner) == (
        "system",
        "system_time",
        "client",
    )
    assert verdict.offset is not None
    assert body[verdict.offset - 1 : verdict.offset + 1] == b"16"


def test_usage_of_two_providers_has_one_meaning() -> None:
    assert Usage(input_uncached=5, cache_read=3).input_total == 8


async def test_an_overflow_behind_the_first_content_passes_as_it_is(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told)
    content = (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"text_delta","text":"a"}}\n\n'
    )
    chunks = (IN_STREAM.chunks[0], content, IN_STREAM.chunks[2])
    said = Said(200, chunks, IN_STREAM.headers)

    talk = conversation(runtime) >> request(anthropic_body(told_turns(), stream=True))
    talk <<= upstream_gets(lambda asked: asked.payload["stream"])
    await (talk >> upstream_says(said) << client_gets(b"".join(chunks)))

    assert [(o.stage, o.outcome) for o in told.last.overflows] == [
        ("in_stream", "observed")
    ]


@pytest.mark.parametrize("mode", ["observe", "shadow"])
async def test_without_leave_to_compile_an_overflow_is_only_told(
    told: Told, mode: str
) -> None:
    runtime = make_runtime(make_config(mode=mode), told)
    body = anthropic_body(told_turns())

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(OVERFLOW) << client_gets(OVERFLOW.chunks[0]))

    assert [(o.stage, o.outcome) for o in told.last.overflows] == [
        ("rejected", "observed")
    ]


async def test_with_recovery_off_an_overflow_is_only_told(told: Told) -> None:
    runtime = make_runtime(make_config(more="overflow: {recover: false}"), told)
    body = anthropic_body(told_turns())

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(OVERFLOW) << client_gets(OVERFLOW.chunks[0]))

    assert [(o.stage, o.outcome) for o in told.last.overflows] == [
        ("rejected", "observed")
    ]


async def test_another_error_of_a_compiling_route_is_no_overflow(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told)
    said = Said(400, (b'{"type":"error","error":{"type":"invalid_request_error"}}',))
    body = anthropic_body(told_turns())

    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    await (talk >> upstream_says(said) << client_gets(said.chunks[0]))

    assert told.last.overflows == ()


@pytest.mark.parametrize(
    ("mode", "said", "state"),
    [
        ("compile", OK, "placed"),
        ("shadow", OK, "shadow"),
        ("compile", Said(429, (b"{}",)), "dropped"),
        ("compile", UpstreamUnreachable(upstream="u"), "dropped"),
    ],
)
async def test_a_new_block_is_told_as_placed_only_if_it_was_accepted(
    told: Told, mode: str, said: Said | UpstreamUnreachable, state: str
) -> None:
    runtime = make_runtime(make_config(mode=mode), told, sources=[FixedSource()])

    await served(runtime, anthropic_body(TURNS), said)

    assert [(p.is_new, p.state) for p in told.last.placements] == [(True, state)]


async def test_a_block_of_before_stays_placed_whatever_becomes_of_a_request(
    told: Told,
) -> None:
    runtime = make_runtime(make_config(), told, sources=[FixedSource()])
    await served(runtime, anthropic_body(TURNS), OK)

    later = anthropic_body([*TURNS, assistant("a"), user("b")])
    await served(runtime, later, Said(500, (b"{}",)))

    assert [(p.is_new, p.state) for p in told.last.placements] == [(False, "placed")]


async def served(
    runtime: Runtime, body: bytes, said: Said | UpstreamUnreachable
) -> None:
    assert isinstance(runtime.upstreams, ScriptedUpstreams)
    runtime.upstreams.answers.put_nowait(said)
    with contextlib.suppress(UpstreamUnreachable):
        await serve_call(
            GivenRequest(body), GivenClient(), runtime, Watch(runtime.monotonic)
        )


@pytest.mark.parametrize(
    ("target", "text", "seconds"),
    [
        ("/v1/messages", "", 300.0),
        ("/v1/messages", '"cache_control": {"type":"ephemeral","ttl" : "1h"},', 3_600),
        (CHAT, "", 600.0),
        (CHAT, '"prompt_cache_retention":"24h",', 86_400.0),
        (CHAT, '"prompt_cache_options":{"ttl":"30m"},', 1_800.0),
    ],
)
async def test_a_prefix_lives_as_long_as_its_request_asks_for(
    runtime: Runtime, target: str, text: str, seconds: float
) -> None:
    turns = b'"messages":[{"role":"user","content":"hi"}]}'
    body = b'{"model":"m","max_tokens":9,' + text.encode() + turns
    call = await admitted(runtime, GivenRequest(body, target))

    compiled = compile_call(call, await recall_context(call, runtime), runtime)

    await keep_call(call, compiled, runtime)

    assert kept_baseline(call, compiled, runtime).ttl_seconds == seconds
