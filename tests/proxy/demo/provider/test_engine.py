from typing import Any

import pytest

from deuz_proxy.demo.provider.engine import MAX_HELD_ITEMS, Accepted, Engine, Settings
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    RESPONSES,
    Finished,
    ProviderRequest,
    Refusal,
    Reply,
    Text,
)
from deuz_proxy.demo.provider.signing import Signer

Json = dict[str, Any]
SETTINGS = Settings(window_tokens=200, minimum_cached_tokens=16, cache_step_tokens=8)
MARK = {"cache_control": {"type": "ephemeral"}}


def chat(text: str, credential: str = "me", **members: Any) -> ProviderRequest:
    turns = [{"role": "user", "content": text}]
    payload = {"model": "fake", "messages": turns, **members}
    return ProviderRequest(CHAT, "fake", False, payload, b"", credential=credential)


def anthropic(text: str, **members: Any) -> ProviderRequest:
    block = {"type": "text", "text": text, **MARK}
    turns = [{"role": "user", "content": [block]}]
    payload = {"model": "fake", "max_tokens": 9, "messages": turns, **members}
    return ProviderRequest(ANTHROPIC, "fake", False, payload, b"", credential="me")


def responses(
    text: str, previous: str | None = None, **members: Any
) -> ProviderRequest:
    payload = {"model": "fake", "input": text, **members}
    if previous:
        payload["previous_response_id"] = previous
    return ProviderRequest(RESPONSES, "fake", False, payload, b"", credential="me")


@pytest.fixture
def engine() -> Engine:
    return Engine(SETTINGS, Signer())


def serve(engine: Engine, request: ProviderRequest, serial: str = "1") -> Finished:
    judged = engine.judge(request, 0.0)
    assert isinstance(judged, Accepted)
    reply = Reply((Text("answer"),))
    return engine.finish(judged, reply, created=0, serial=serial)


def test_counts_add_up_to_the_prompt(engine: Engine) -> None:
    first = serve(engine, anthropic("x" * 400)).counts
    second = serve(engine, anthropic("x" * 400)).counts

    assert first.cache_write_short == first.input_total > 0
    assert second.cache_read == second.input_total == first.input_total
    assert second.output == 2


def test_automatic_caches_are_apart_by_credential_and_key(engine: Engine) -> None:
    serve(engine, chat("x" * 400))

    assert serve(engine, chat("x" * 400)).counts.cache_read > 0
    assert serve(engine, chat("x" * 400, credential="you")).counts.cache_read == 0
    assert serve(engine, chat("x" * 400, prompt_cache_key="k")).counts.cache_read == 0


def test_rules_are_judged_before_the_window(engine: Engine) -> None:
    too_long_and_wrong = anthropic("x" * 4_000, max_tokens=None)

    refusal = engine.judge(too_long_and_wrong, 0.0)

    assert isinstance(refusal, Refusal)
    assert refusal.rule == "missing_max_tokens"


def test_a_model_may_have_a_window_of_its_own() -> None:
    engine = Engine(Settings(model_windows={"fake": 10}), Signer())

    refusal = engine.judge(chat("x" * 400), 0.0)

    assert isinstance(refusal, Refusal)
    assert "maximum context length is 10 tokens" in refusal.message


def test_a_response_is_held_with_its_input_and_output(engine: Engine) -> None:
    serve(engine, responses("hi"), serial="1")

    held = engine.recall_history(responses("more", previous="resp_1"))

    assert not isinstance(held, Refusal)
    assert [item["role"] for item in held] == ["user", "assistant"]


def test_what_was_not_stored_is_not_found(engine: Engine) -> None:
    serve(engine, responses("hi", store=False), serial="1")

    refusal = engine.recall_history(responses("more", previous="resp_1"))

    assert isinstance(refusal, Refusal)
    assert refusal.code == "previous_response_not_found"


def test_a_nearly_full_window_cuts_the_answer(engine: Engine) -> None:
    finished = serve(engine, anthropic("x" * (200 * 4 - 12)))

    assert finished.counts.input_total + finished.counts.output == 200
    assert finished.reply.stop == "window"


def test_a_growing_conversation_reads_what_it_wrote_the_turn_before() -> None:
    engine = Engine(Settings(minimum_cached_tokens=16), Signer())
    turns: list[Json] = []
    written = 0
    for number in range(12):
        block = {"type": "text", "text": f"question {number} " + "x" * 80}
        marked = {"role": "user", "content": [{**block, **MARK}]}
        payload = {"model": "fake", "max_tokens": 99, "messages": [*turns, marked]}
        request = ProviderRequest(ANTHROPIC, "fake", False, payload, b"")

        counts = serve(engine, request).counts

        assert counts.cache_read == written
        assert counts.uncached == 0
        written = counts.input_total
        # Agents move their marker: the old turn comes back as a plain string.
        turns.append({"role": "user", "content": block["text"]})
        turns.append({"role": "assistant", "content": "answer"})


def referring(item_id: str, credential: str = "me") -> ProviderRequest:
    turns = [
        {"type": "item_reference", "id": item_id},
        {"role": "user", "content": "more"},
    ]
    payload = {"model": "fake", "input": turns}
    return ProviderRequest(
        RESPONSES, "fake", False, payload, b"", credential=credential
    )


def test_an_item_that_is_held_stands_for_its_reference(engine: Engine) -> None:
    serve(engine, responses("hello"))

    held = engine.recall_held(referring("msg_100"))

    assert isinstance(held, ProviderRequest)
    items = held.payload["input"]
    assert [item["role"] for item in items] == ["assistant", "user"]
    assert items[0]["content"][0]["text"] == "answer"


def test_an_item_of_nobody_or_of_another_is_refused(engine: Engine) -> None:
    serve(engine, responses("hello"))
    serve(engine, responses("unkept", store=False), serial="2")

    refusals = [
        engine.recall_held(referring("msg_200")),
        engine.recall_held(referring("msg_100", credential="you")),
    ]

    for refusal in refusals:
        assert isinstance(refusal, Refusal)
        assert (refusal.rule, refusal.status) == ("unknown_item", 404)


def test_items_held_are_bounded_and_the_oldest_goes_first(engine: Engine) -> None:
    serve(engine, responses("hello"))
    judged = engine.judge(responses("many"), 0.0)
    assert isinstance(judged, Accepted)

    engine.finish(judged, Reply((Text("a"),) * MAX_HELD_ITEMS), created=0, serial="2")

    assert isinstance(engine.recall_held(referring("msg_100")), Refusal)
    assert isinstance(engine.recall_held(referring("msg_200")), ProviderRequest)
