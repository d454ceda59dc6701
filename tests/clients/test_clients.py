"""Real clients through the sidecar: what arrives, what comes back, what is told."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

from deuz_proxy.demo.provider import LoggedRequest
from deuz_testing.frameworks import FRAMEWORK_TALKS
from deuz_testing.node import NODE_TALKS, VERCEL_TALKS
from deuz_testing.talks_anthropic import ANTHROPIC_TALKS
from deuz_testing.talks_gemini import GEMINI_TALKS
from deuz_testing.talks_ollama import OLLAMA_TALKS
from deuz_testing.talks_openai import OPENAI_TALKS, QUESTIONS
from deuz_testing.talks_responses import RESPONSES_TALKS
from deuz_testing.ways import (
    COMPILE,
    COMPILE_PART,
    DIRECT,
    OBSERVE,
    RULE,
    Recorder,
    Recording,
    Talk,
    blocks_of,
    end_to_end_lines,
    is_lifted,
    said_counts,
    without_inserted,
    without_usage,
)

IN_PYTHON = (
    *OPENAI_TALKS,
    *RESPONSES_TALKS,
    *ANTHROPIC_TALKS,
    *GEMINI_TALKS,
    *OLLAMA_TALKS,
)
# What these run is installed first and starts a process.
LIBRARIES = FRAMEWORK_TALKS + VERCEL_TALKS
TALKS = [
    pytest.param(talk, id=talk.name, marks=[pytest.mark.e2e] if talk.needs else [])
    for talk in IN_PYTHON + NODE_TALKS + LIBRARIES
]


def choose(fits: Callable[[Talk], bool]) -> list[Any]:
    return [param for param in TALKS if fits(cast("Talk", param.values[0]))]


CONVERSATIONS = choose(lambda talk: talk.is_conversation and is_lifted(talk.wire))
PASSED_THROUGH = choose(lambda talk: not is_lifted(talk.wire))
HELD = choose(lambda talk: talk.wire == "openai_responses" and not talk.is_conversation)
FRAMEWORKS = choose(lambda talk: talk in LIBRARIES)
METERED = choose(lambda talk: talk.wire != "gemini" or is_lifted("gemini"))
HISTORIES = ("messages", "input", "contents")
ANY_WAY = pytest.mark.parametrize("way", [OBSERVE, COMPILE, COMPILE_PART])
COMPILING = pytest.mark.parametrize("way", [COMPILE, COMPILE_PART])


def rendered_turns(body: bytes) -> list[Any]:
    """Return the turns as a model sees them: no markers, text always in a list."""
    request = json.loads(body)
    history = next(request[name] for name in HISTORIES if name in request)
    if isinstance(history, str):
        history = [{"role": "user", "content": history}]
    return [_rendered(message) for message in history]


def _rendered(message: dict[str, Any]) -> dict[str, Any]:
    if "parts" in message or message.get("type", "message") != "message":
        return message
    content = message["content"] if message.get("content") is not None else []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    content = [_plain(block) for block in content]
    return {**message, "type": "message", "content": content}


def _plain(block: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in block.items() if key != "cache_control"}
    return {**kept, "type": "text"} if block["type"] == "input_text" else kept


def settled_bodies(talk: Talk, recording: Recording) -> list[bytes]:
    return [talk.settled(logged.body) for logged in recording.requests]


def usage_pairs(recording: Recording) -> Iterator[tuple[object, object]]:
    """Yield what the sidecar read of each usage, and what the provider counted."""
    for told, logged in zip(recording.told, recording.requests, strict=True):
        counted = logged.usage
        if counted is None or not asks_for_usage(logged):
            yield told["usage"], None
            continue
        said = said_counts(told["wire"], counted)
        usage = told["usage"]
        yield (usage["input_total"], usage["cache_read"], usage["output"]), said


def asks_for_usage(logged: LoggedRequest) -> bool:
    """Tell whether the answer carries usage; a chat stream does only if asked to."""
    if logged.wire != "openai_chat":
        return True
    payload = json.loads(logged.body)
    options = payload.get("stream_options") or {}
    return not payload.get("stream") or options.get("include_usage", False)


@pytest.mark.parametrize("talk", TALKS)
def test_observed_the_provider_receives_the_very_bytes_of_the_sdk(
    talk: Talk, recorded: Recorder
) -> None:
    direct, observed = recorded(talk, DIRECT), recorded(talk, OBSERVE)

    received = [(r.method, r.raw_path) for r in observed.requests]

    assert received == [(r.method, r.raw_path) for r in direct.requests]
    assert settled_bodies(talk, observed) == settled_bodies(talk, direct)


@ANY_WAY
@pytest.mark.parametrize("talk", TALKS)
def test_the_provider_receives_the_header_lines_of_the_sdk_in_their_order(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    direct, through = recorded(talk, DIRECT), recorded(talk, way)

    received = [end_to_end_lines(logged) for logged in through.requests]

    assert received == [end_to_end_lines(logged) for logged in direct.requests]


@ANY_WAY
@pytest.mark.parametrize("talk", TALKS)
def test_the_announced_length_is_that_of_the_body_sent(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    posts = [r for r in recorded(talk, way).requests if r.method == "POST"]

    announced = [dict_of(logged.headers)[b"content-length"] for logged in posts]

    assert announced == [str(len(logged.body)).encode() for logged in posts]


def dict_of(headers: tuple[tuple[bytes, bytes], ...]) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in headers}


@pytest.mark.parametrize("talk", TALKS)
def test_observed_the_sdk_understands_what_it_understands_directly(
    talk: Talk, recorded: Recorder
) -> None:
    direct, observed = recorded(talk, DIRECT), recorded(talk, OBSERVE)

    assert direct.results
    assert observed.results == direct.results


@COMPILING
@pytest.mark.parametrize("talk", TALKS)
def test_compiled_the_answers_are_the_direct_ones_but_for_their_token_counts(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    direct, compiled = recorded(talk, DIRECT), recorded(talk, way)

    assert without_usage(compiled.results) == without_usage(direct.results)


@ANY_WAY
@pytest.mark.parametrize("talk", TALKS)
def test_the_provider_refuses_only_what_it_refuses_directly(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    assert recorded(talk, way).refused == recorded(talk, DIRECT).refused


@ANY_WAY
@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_a_conversation_is_extended_turn_after_turn(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    through = recorded(talk, way)

    verdicts = [told["verdict"]["verdict"] for told in through.told]
    conversations = {told["conversation"] for told in through.told}

    assert verdicts == ["first", *["extended"] * (len(through.requests) - 1)]
    assert len(conversations) == 1
    assert sum(told["sidecar_mutations"] for told in through.told) == 0


@ANY_WAY
@pytest.mark.parametrize("talk", METERED)
def test_usage_is_read_as_the_provider_counted_it(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    for read, counted in usage_pairs(recorded(talk, way)):
        assert read == counted


@COMPILING
@pytest.mark.parametrize("talk", TALKS)
def test_compiled_without_the_inserted_ranges_the_body_is_the_sdks(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    direct, compiled = recorded(talk, DIRECT), recorded(talk, way)

    sent = settled_bodies(talk, compiled)
    own = settled_bodies(talk, direct)

    assert list(map(without_inserted, sent, own)) == own


@COMPILING
@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_compiled_each_block_stays_in_its_place_byte_for_byte(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    requests = recorded(talk, way).requests

    placed = [blocks_of(logged.body) for logged in requests]

    assert RULE.encode() in placed[0][0][1]
    for earlier, later in pairwise(placed):
        assert later[: len(earlier)] == earlier


@COMPILING
@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_compiled_a_request_repeats_the_messages_of_the_one_before(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    requests = recorded(talk, way).requests

    sent = [rendered_turns(logged.body) for logged in requests]

    for earlier, later in pairwise(sent):
        assert later[: len(earlier)] == earlier


@COMPILING
@pytest.mark.parametrize("talk", CONVERSATIONS)
def test_compiled_what_fits_the_questions_is_placed_once(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    recording = recorded(talk, way)

    told = [len(told["placements"]) for told in recording.told]
    records = [
        record
        for placement in recording.told[-1]["placements"]
        for record in placement["records"]
    ]

    assert told == [len(blocks_of(logged.body)) for logged in recording.requests]
    assert len(records) == len(set(records))
    assert {"rules/tone"} < set(records)


@ANY_WAY
@pytest.mark.parametrize("talk", HELD)
def test_a_history_at_the_provider_is_left_alone_and_its_usage_is_read(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    direct, through = recorded(talk, DIRECT), recorded(talk, way)

    sent = zip(direct.requests, through.requests, strict=True)
    held = [pair for pair in sent if b'"previous_response_id":"' in pair[0].body]

    assert len(held) >= 2
    assert [b.body for _, b in held] == [a.body for a, _ in held]
    assert {told["usage_status"] for told in through.told} == {"reported"}
    assert {told["wire"] for told in through.told} == {"openai_responses"}


@ANY_WAY
@pytest.mark.parametrize("talk", PASSED_THROUGH)
def test_what_is_not_understood_passes_through(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    direct, through = recorded(talk, DIRECT), recorded(talk, way)

    assert settled_bodies(talk, through) == settled_bodies(talk, direct)
    assert {told["verdict"] for told in through.told} == {None}


@pytest.mark.parametrize("way", [DIRECT, OBSERVE, COMPILE, COMPILE_PART])
@pytest.mark.parametrize("talk", FRAMEWORKS)
def test_a_framework_reads_an_answer_to_each_question_and_runs_its_tool(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    recording = recorded(talk, way)

    texts = [result[0] for result in recording.results if result[0]]

    assert len(texts) == len(QUESTIONS)
    assert all(text.endswith("was read and understood.") for text in texts)
    assert len(recording.requests) == 2 * len(QUESTIONS)


@ANY_WAY
@pytest.mark.parametrize("talk", TALKS)
def test_every_request_is_told_of_with_the_status_the_client_saw(
    talk: Talk, way: str, recorded: Recorder
) -> None:
    through = recorded(talk, way)

    statuses = [told["status"] for told in through.told]
    outcomes = [told["outcome"] for told in through.told]

    assert statuses == [logged.status for logged in through.requests]
    assert outcomes == [
        "ok" if status < 400 else "upstream_error" for status in statuses
    ]
