from dataclasses import replace
from typing import Any

import msgspec
import pytest

from deuz_compiler import Fold, FoldRun
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.events import UpstreamCall
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime
from deuz_proxy.summarize import summarize_fold
from deuz_testing.bodies import (
    anthropic_body,
    user,
)
from deuz_testing.conversation import (
    admitted,
    anthropic_answer,
    anthropic_overflow,
    client_gets,
    conversation,
    is_summary,
    request,
    told_turns,
    upstream_gets,
    upstream_says,
)
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import Asked, GivenRequest, Said, ScriptedUpstreams

BODY = anthropic_body([user("q")], system="s", tools=[], stream=True)


RUN = FoldRun(
    first=1,
    last=6,
    previous="",
    lines=tuple(f"user: line {n}" for n in range(50)),
    question="and now?",
    replaced_tokens=5_000,
)


OK = anthropic_answer()


NOTES = anthropic_answer("They talk about rivers.")


OVERFLOW = anthropic_overflow()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def runtime(told: Told) -> Runtime:
    return make_runtime(make_config(), told)


async def summarized(
    runtime: Runtime, said: Said, run: FoldRun = RUN, **changes: Any
) -> tuple[Fold | None, list[UpstreamCall]]:
    """Return what came of it, and the calls that were noted."""
    assert isinstance(runtime.upstreams, ScriptedUpstreams)
    runtime.upstreams.answers.put_nowait(said)
    call = await admitted(runtime, GivenRequest(BODY, **({"headers": ()} | changes)))
    watch = Watch(runtime.monotonic)
    fold = await summarize_fold(call, run, runtime, watch, fit_tokens=None)
    return fold, watch.calls


async def test_a_good_summary_becomes_a_fold_with_the_question_word_for_word(
    runtime: Runtime,
) -> None:
    fold, (made,) = await summarized(runtime, anthropic_answer('They said "no".'))

    assert fold is not None
    assert fold.turns == 6
    assert 'They said "no".' in fold.plain_text
    assert fold.plain_text.endswith("and now?")
    assert fold.form == "turn"
    assert (made.purpose, made.status, made.model) == (
        "summarize",
        200,
        "claude-sonnet-4-5",
    )
    assert made.usage is not None


async def test_the_request_fits_where_the_conversation_did_not(
    runtime: Runtime,
) -> None:
    assert isinstance(runtime.upstreams, ScriptedUpstreams)
    huge = replace_run(lines=tuple("word " * 4000 for _ in range(50)))
    await summarized(runtime, anthropic_answer(), huge)

    asked = runtime.upstreams.asked.get_nowait()

    assert len(asked.payload["messages"][0]["content"]) <= 60_000


def replace_run(**changes: Any) -> FoldRun:
    fields = {name: getattr(RUN, name) for name in RUN.__struct_fields__}
    return FoldRun(**(fields | changes))


async def test_where_there_is_no_room_to_ask_nothing_is_asked(
    runtime: Runtime,
) -> None:
    call = await admitted(runtime, GivenRequest(BODY))

    unread = msgspec.structs.replace(call, envelope=None)
    watch = Watch(runtime.monotonic)

    assert await summarize_fold(call, RUN, runtime, watch, fit_tokens=100) is None
    assert await summarize_fold(unread, RUN, runtime, watch, fit_tokens=None) is None
    assert watch.calls == []


async def test_a_summary_that_does_not_come_in_time_is_none(
    runtime: Runtime,
) -> None:
    class Slow(ScriptedUpstreams):
        async def send(self, **_: Any) -> Any:
            raise TimeoutError

    slow = replace(runtime, upstreams=Slow())

    fold, (made,) = await summarized(slow, Said())

    assert fold is None
    assert made.error == "timeout"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (anthropic_answer(" "), "summary_blank"),
        (anthropic_answer("word " * 9_000), "summary_not_smaller"),
    ],
)
async def test_why_a_summary_was_not_taken_is_counted(
    runtime: Runtime, told: Told, answer: Said, word: str
) -> None:
    fold, _ = await summarized(runtime, answer)

    assert fold is None
    assert told.faults == [("recover", word)]


async def test_an_error_is_no_summary_even_if_it_has_text(
    runtime: Runtime, told: Told
) -> None:
    refused = replace(anthropic_answer("Hi."), status=429)

    fold, (made,) = await summarized(runtime, refused)

    assert fold is None
    assert made.status == 429
    assert told.faults == []


async def test_lines_about_coding_and_length_are_not_those_of_the_client(
    runtime: Runtime,
) -> None:
    assert isinstance(runtime.upstreams, ScriptedUpstreams)
    lines = (
        (b"Content-Type", b"application/json; odd"),
        (b"Accept-Encoding", b"br"),
        (b"anthropic-version", b"1"),
    )
    await summarized(runtime, anthropic_answer(), headers=lines)

    asked = runtime.upstreams.asked.get_nowait()

    assert asked.headers == (
        (b"anthropic-version", b"1"),
        (b"Content-Type", b"application/json"),
    )


REFUSED_SUMMARIES: dict[str, Said] = {
    "blank": anthropic_answer(" \n\u200b"),
    "error": Said(500, (b"{}",)),
    "not json": Said(200, (b"<html>",)),
    "larger": anthropic_answer("word " * 40_000),
    "cut": Said(200, (OK.chunks[0].replace(b"end_turn", b"max_tokens"),)),
    "refusal": Said(200, (OK.chunks[0].replace(b"end_turn", b"refusal"),)),
    "tool call": Said(
        200,
        (
            OK.chunks[0].replace(
                b'{"type": "text", "text": "Fine."}',
                b'{"type":"tool_use","id":"t","name":"n","input":{}}',
            ),
        ),
    ),
    "too long": Said(200, (b'{"a":"' + b"x" * 3_000_000, b'"}')),
    "broken": Said(200, (b"{",), fault=UpstreamBroken(upstream="u")),
}


@pytest.mark.parametrize("summary", REFUSED_SUMMARIES.values(), ids=REFUSED_SUMMARIES)
async def test_without_a_good_summary_the_first_answer_goes_out_byte_for_byte(
    runtime: Runtime, told: Told, summary: Said
) -> None:
    body = anthropic_body(told_turns())
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(summary)
    await (talk << client_gets(OVERFLOW.chunks[0]))

    assert (talk.client.status, talk.client.headers) == (400, OVERFLOW.headers)
    assert talk.client.reason == "Because"
    assert told.last.overflows[0].outcome == "surfaced"
    assert told.last.status == 400
    assert all(reply.is_closed for reply in talk.upstream.replies)


async def test_a_summary_that_cannot_be_asked_for_is_told_and_the_error_surfaced(
    runtime: Runtime, told: Told
) -> None:
    body = anthropic_body(told_turns())
    talk = conversation(runtime) >> request(body) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(is_summary)
    talk >>= upstream_says(UpstreamBroken(upstream="u"))
    await (talk << client_gets(OVERFLOW.chunks[0]))

    assert [c.error for c in told.last.upstream_calls] == [None, "upstream_broken"]


async def test_the_summary_is_asked_with_the_clients_credential_and_own_model(
    told: Told,
) -> None:
    config = make_config(more="overflow: {summarize: {model: small}}")
    runtime = make_runtime(config, told)
    seen: list[Asked] = []

    def keep(asked: Asked) -> bool:
        seen.append(asked)
        return is_summary(asked)

    body = anthropic_body(told_turns(), system="Be kind.", stream=True)
    lines = ((b"anthropic-beta", b"x"), (b"Content-Encoding", b"identity"))

    talk = conversation(runtime) >> request(body, *lines) << upstream_gets(body)
    talk >>= upstream_says(OVERFLOW)
    talk <<= upstream_gets(keep)
    talk >>= upstream_says(NOTES)
    talk <<= upstream_gets(lambda asked: asked.body != body)
    await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))

    (asked,) = seen
    assert asked.payload["model"] == "small"
    assert "stream" not in asked.payload
    assert asked.path == "/v1/messages"
    assert (b"x-api-key", b"key-1") in asked.headers
    assert (b"anthropic-beta", b"x") in asked.headers
    assert (b"Content-Type", b"application/json") in asked.headers
    assert all(name.lower() != b"content-encoding" for name, _ in asked.headers)
