"""The sidecar before a real inference engine: real cached tokens, a real overflow.

The engine is llama.cpp's server with a random model, so its words mean nothing, but its
counts and its errors are those of any llama.cpp.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import anthropic
import openai
import pytest
from anthropic import Anthropic
from openai import OpenAI

from deuz_testing.engine import MODEL, running_engine
from deuz_testing.sidecar import Json, Sidecar, sidecar_config, sidecar_in_thread
from deuz_testing.twelve import TOLERANCE, TOPICS, Count, compare, uncached_tokens
from deuz_testing.ways import client_environment, write_sources

pytestmark = pytest.mark.e2e

CONTEXT_TOKENS = 32_768
SYSTEM = "You are the on-call assistant of a team that runs a shop. " * 12
QUESTIONS = tuple(f"What do we know about {topic}, shortly?" for topic in TOPICS)
LOG = "10:42:07 payments order=41 status=retry wait=2s\n" * 4

Mode = tuple[str, str]
OFF: Mode = ("observe", "turn")


@contextmanager
def engine_and_sidecar(
    folder: Path, mode: Mode, *, context_tokens: int = CONTEXT_TOKENS, **sections: Any
) -> Iterator[tuple[str, Sidecar]]:
    """Run both, the engine with a template that the way of placing calls for."""
    folder.mkdir(exist_ok=True)
    name, placement = mode
    is_alternating = placement == "part"
    with running_engine(
        folder, context_tokens=context_tokens, is_alternating=is_alternating
    ) as engine:
        config = sidecar_config(
            engine.url,
            mode=name,
            placement=placement,
            sources=write_sources(folder, TOPICS),
            **sections,
        )
        with sidecar_in_thread(folder, config) as sidecar:
            yield engine.url, sidecar


def ask_chat(client: OpenAI, messages: list[Any]) -> Count:
    answer = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=4
    )
    usage = answer.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return Count(usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0)


def ask_messages(client: Anthropic, messages: list[Any]) -> Count:
    answer = client.messages.create(
        model=MODEL, system=SYSTEM, messages=messages, max_tokens=4
    )
    cached = answer.usage.cache_read_input_tokens or 0
    return Count(answer.usage.input_tokens + cached, cached)


def talk_by_chat() -> list[Count]:
    """Hold twelve turns with tools; what the assistant said is the script's.

    A random model's own words would differ with every byte of the prompt.
    """
    counts = []
    messages: list[Any] = [{"role": "system", "content": SYSTEM}]
    with OpenAI() as client:
        for number, question in enumerate(QUESTIONS):
            messages.append({"role": "user", "content": question})
            counts.append(ask_chat(client, messages))
            messages += chat_exchange(f"call_{number}", LOG)
            counts.append(ask_chat(client, messages))
            messages.append({"role": "assistant", "content": f"Answer {number}."})
    return counts


def talk_by_messages() -> list[Count]:
    counts = []
    messages: list[Any] = []
    with Anthropic() as client:
        for number, question in enumerate(QUESTIONS):
            messages.append({"role": "user", "content": question})
            counts.append(ask_messages(client, messages))
            messages += messages_exchange(f"toolu_{number}", LOG)
            counts.append(ask_messages(client, messages))
            messages.append({"role": "assistant", "content": f"Answer {number}."})
    return counts


def chat_exchange(call_id: str, result: str) -> list[Any]:
    called = {"name": "read_log", "arguments": '{"lines":4}'}
    call = {"id": call_id, "type": "function", "function": called}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def messages_exchange(call_id: str, result: str) -> list[Any]:
    call = {"type": "tool_use", "id": call_id, "name": "read_log", "input": {"n": 4}}
    answer = {"type": "tool_result", "tool_use_id": call_id, "content": result}
    return [
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [answer]},
    ]


TALKS = {"chat": talk_by_chat, "messages": talk_by_messages}


@dataclass(frozen=True, slots=True)
class Watched:
    """The twelve turns with context off: what was counted, told, and measured."""

    wire: str
    counts: list[Count]
    told: list[Json]
    metrics: Mapping[str, float]


@pytest.fixture(scope="module", params=list(TALKS))
def watched(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Watched:
    wire: str = request.param
    folder = tmp_path_factory.mktemp(f"off-{wire}")
    with engine_and_sidecar(folder, OFF) as (_, sidecar):
        with client_environment(sidecar.url):
            counts = TALKS[wire]()
        told = sidecar.told(len(counts))
        metrics = {
            "read": sidecar.counted("deuz_tokens_total", type="cache_read"),
            "uncached": sidecar.counted("deuz_tokens_total", type="input_uncached"),
            "missed": sidecar.counted("deuz_cache_missed_tokens_total"),
        }
    return Watched(wire, counts, told, metrics)


@pytest.mark.parametrize("placement", ["turn", "part"])
def test_twelve_turns_keep_the_engines_cache_within_two_percent(
    watched: Watched, placement: str, tmp_path: Path
) -> None:
    off = watched.counts
    with engine_and_sidecar(tmp_path, ("compile", placement)) as (_, sidecar):
        with client_environment(sidecar.url):
            on = TALKS[watched.wire]()
        told = sidecar.told(len(on))
        mutations = sidecar.counted("deuz_prefix_sidecar_mutations_total")

    compared = compare(off, on, is_marked=False)
    added = on[-1].total - off[-1].total
    verdicts = [entry["verdict"]["verdict"] for entry in told]

    assert [c for c in compared if not c.is_within_tolerance] == []
    assert all(c.without > 0 for c in compared[1:])
    assert len(told[-1]["placements"]) >= 8
    assert {p["form"] for p in told[-1]["placements"]} == {placement}
    assert verdicts == ["first", *["extended"] * 23]
    assert mutations == 0
    assert uncached_tokens(on) - uncached_tokens(off) <= (1 + TOLERANCE) * added


def test_the_engines_counts_are_read_and_add_up_in_the_metrics(
    watched: Watched,
) -> None:
    counts, told, metrics = watched.counts, watched.told, watched.metrics

    read = [Count(t["usage"]["input_total"], t["usage"]["cache_read"]) for t in told]
    verdicts = [entry["verdict"]["verdict"] for entry in told]

    assert read == counts
    assert metrics["read"] == sum(count.cached for count in counts) > 0
    assert metrics["uncached"] == uncached_tokens(counts) > 0
    assert metrics["missed"] <= TOLERANCE * metrics["read"]
    assert verdicts == ["first", *["extended"] * 23]


class Overgrown:
    """A conversation that outgrows a small window, on one of the wires."""

    def __init__(self, wire: str) -> None:
        is_chat = wire == "chat"
        self.path = "/v1/chat/completions" if is_chat else "/v1/messages"
        exchange = chat_exchange if is_chat else messages_exchange
        self.messages: list[Any] = [{"role": "user", "content": "Look into it."}]
        for number in range(8):
            self.messages += exchange(f"call_{number}", f"{number} " + LOG * 3)

    def chatter(self, *, turns: int) -> Self:
        """Talk of plain words instead: nothing in it can be pruned."""
        self.messages = []
        for number in range(turns):
            words = f"Question {number}: " + "what about the orders? " * 30
            self.messages.append({"role": "user", "content": words})
            self.messages.append({"role": "assistant", "content": f"{number}. " * 60})
        self.messages.append({"role": "user", "content": "And now?"})
        return self

    @property
    def body(self) -> dict[str, Any]:
        return {"model": MODEL, "messages": self.messages, "max_tokens": 4}


WINDOW_TOKENS = 4_096
PRUNE_ONLY = {"layers": ["prune-tool-results"], "keep_recent_steps": 1}
SUMMARY_ONLY = {"layers": ["summarize"], "keep_recent_steps": 2}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        return error


def post(url: str, talk: Overgrown, **members: Any) -> Answer:
    """Send without any SDK: what comes back is compared byte for byte."""
    request = urllib.request.Request(
        url + talk.path,
        json.dumps({**talk.body, **members}).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return Answer(reply.status, reply.headers["Content-Type"], reply.read())
    except urllib.error.HTTPError as fault:
        with fault:
            return Answer(fault.code, fault.headers["Content-Type"], fault.read())


@pytest.mark.parametrize("placement", ["turn", "part"])
@pytest.mark.parametrize("wire", TALKS)
def test_a_real_overflow_is_recovered_by_pruning_and_stays_recovered(
    wire: str, placement: str, tmp_path: Path
) -> None:
    talk = Overgrown(wire)
    with engine_and_sidecar(
        tmp_path,
        ("compile", placement),
        context_tokens=WINDOW_TOKENS,
        overflow=PRUNE_ONLY,
    ) as (engine, sidecar):
        direct = post(engine, talk)
        recovered = post(sidecar.url, talk)
        talk.messages.append({"role": "assistant", "content": "It is slow."})
        talk.messages.append({"role": "user", "content": "Go on, then."})
        after = post(sidecar.url, talk)
        told = sidecar.told(2)
        counted = sidecar.counted(
            "deuz_overflow_total", stage="rejected", outcome="recovered"
        )
        pruned = sidecar.counted(
            "deuz_compaction_total", layer="prune-tool-results", trigger="overflow"
        )

    error = direct.error
    assert direct.status == 400
    assert error["type"] == "exceed_context_size_error"
    assert recovered.status == after.status == 200
    assert told[0]["overflows"] == [
        {
            "stage": "rejected",
            "outcome": "recovered",
            "limit_tokens": error["n_ctx"],
            "requested_tokens": error["n_prompt_tokens"],
        }
    ]
    assert told[1]["overflows"] == []
    assert told[1]["verdict"]["verdict"] == "extended"
    assert told[1]["usage"]["cache_read"] > 0
    assert (counted, pruned) == (1, 1)


@pytest.mark.parametrize("wire", TALKS)
def test_a_real_overflow_of_a_streamed_request_is_recovered_as_a_stream(
    wire: str, tmp_path: Path
) -> None:
    with engine_and_sidecar(
        tmp_path,
        ("compile", "turn"),
        context_tokens=WINDOW_TOKENS,
        overflow=PRUNE_ONLY,
    ) as (_, sidecar):
        reply = post(sidecar.url, Overgrown(wire), stream=True)
        (told,) = sidecar.told(1)

    assert reply.status == 200
    assert reply.content_type.startswith("text/event-stream")
    assert [overflow["outcome"] for overflow in told["overflows"]] == ["recovered"]


@pytest.mark.parametrize("wire", TALKS)
def test_an_overflow_that_nothing_can_cure_is_the_engines_own_answer(
    wire: str, tmp_path: Path
) -> None:
    talk = Overgrown(wire)
    talk.messages = [{"role": "user", "content": "word " * WINDOW_TOKENS}]
    with engine_and_sidecar(
        tmp_path, ("compile", "turn"), context_tokens=WINDOW_TOKENS, context={}
    ) as (engine, sidecar):
        direct = post(engine, talk)
        through = post(sidecar.url, talk)
        (told,) = sidecar.told(1)

    assert direct.status == 400
    assert through == direct
    assert [overflow["outcome"] for overflow in told["overflows"]] == ["cannot_fit"]


@pytest.mark.parametrize("wire", TALKS)
def test_where_no_summary_can_be_asked_for_the_answer_is_the_engines_own(
    wire: str, tmp_path: Path
) -> None:
    # A byte is a token here: this window leaves no room to ask for a summary.
    talk = Overgrown(wire).chatter(turns=8)
    with engine_and_sidecar(
        tmp_path,
        ("compile", "turn"),
        context_tokens=WINDOW_TOKENS,
        overflow=SUMMARY_ONLY,
        context={},
    ) as (engine, sidecar):
        direct = post(engine, talk)
        through = post(sidecar.url, talk)
        (told,) = sidecar.told(1)
        calls = sidecar.told_in_full(told["id"])["upstream_calls"]

    assert direct.status == 400
    assert through == direct
    assert [overflow["outcome"] for overflow in told["overflows"]] == ["surfaced"]
    assert [call["purpose"] for call in calls] == ["chat"]


@pytest.mark.parametrize("wire", TALKS)
def test_with_a_summary_by_a_random_model_the_way_out_is_told_truly(
    wire: str, tmp_path: Path
) -> None:
    """What the model writes cannot be foreseen: it may serve as a summary, or not."""
    talk = Overgrown(wire).chatter(turns=28)
    with engine_and_sidecar(
        tmp_path,
        ("compile", "turn"),
        context_tokens=4 * WINDOW_TOKENS,
        overflow=SUMMARY_ONLY,
        context={},
    ) as (engine, sidecar):
        direct = post(engine, talk)
        through = post(sidecar.url, talk)
        again = post(sidecar.url, talk)
        told = sidecar.told(2)
        calls = sidecar.told_in_full(told[0]["id"])["upstream_calls"]

    purposes = [call["purpose"] for call in calls]
    ways_out = [[overflow["outcome"] for overflow in t["overflows"]] for t in told]
    assert direct.status == 400
    if through.status == 200:
        assert purposes == ["chat", "summarize", "retry"]
        assert told[0]["compactions"][0]["layer"] == "summarize"
        # The fold is kept: the same history is not too long a second time.
        assert (again.status, ways_out) == (200, [["recovered"], []])
    else:
        assert purposes[:2] == ["chat", "summarize"]
        assert through == direct
        assert ways_out[0] == ["surfaced"]


SDK_ERRORS: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "chat": (lambda: OpenAI(max_retries=0), openai.BadRequestError),
    "messages": (lambda: Anthropic(max_retries=0), anthropic.BadRequestError),
}


@pytest.mark.parametrize("wire", TALKS)
def test_observed_the_sdk_raises_the_engines_own_overflow(
    wire: str, tmp_path: Path
) -> None:
    make_client, error = SDK_ERRORS[wire]
    ask: Any = ask_chat if wire == "chat" else ask_messages
    talk = Overgrown(wire)
    with engine_and_sidecar(tmp_path, OFF, context_tokens=WINDOW_TOKENS) as opened:
        sidecar = opened[1]
        with (
            client_environment(sidecar.url),
            make_client() as client,
            pytest.raises(error, match="exceeds the available context size"),
        ):
            ask(client, talk.messages)
        (told,) = sidecar.told(1)

    assert told["overflows"][0]["outcome"] == "observed"
    assert told["overflows"][0]["limit_tokens"] == WINDOW_TOKENS
