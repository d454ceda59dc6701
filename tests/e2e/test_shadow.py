"""What shadow mode predicts, beside what compiling then does.

The fake provider counts tokens in its own way and caches: the prediction knows nothing
of it but what it reports.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deuz_proxy.app import Settings, running_app
from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.provider import running_provider

pytestmark = pytest.mark.e2e

CONFIG = """
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams:
  anthropic: {{url: "{url}", wire: anthropic}}
  openai: {{url: "{url}", wire: openai}}
routes:
  - {{path: /v1/messages, mode: {mode}}}
  - {{path: /v1/chat/completions, mode: {mode}}}
context:
  refresh: {{deadline_ms: 30000}}
  sources:
    - {{id: notes, kind: rag, type: files, path: "{notes}", min_score: 0}}
"""
QUESTIONS = ("rivers", "mountains", "harbours", "bridges", "forests", "glaciers")
ANSWER = "It is as the notes say, and nothing else is known of it. " * 12


def marked(text: str) -> list[dict[str, Any]]:
    marker = {"type": "ephemeral"}
    return [{"type": "text", "text": text, "cache_control": marker}]


def conversation(wire: str, number: int) -> tuple[str, dict[str, Any]]:
    """Return path and body of the request with so many questions answered."""
    turns: list[dict[str, Any]] = []
    for name in QUESTIONS[:number]:
        turns += [
            {"role": "user", "content": f"Tell me of the {name} there. " * 9},
            {"role": "assistant", "content": ANSWER},
        ]
    newest = f"Tell me of the {QUESTIONS[number]} there. " * 9
    body: dict[str, Any] = {"model": "gpt-4o", "messages": turns}
    if wire == "openai_chat":
        turns.append({"role": "user", "content": newest})
        return "/v1/chat/completions", body
    turns.append({"role": "user", "content": marked(newest)})
    system = marked("You are a guide. " * 90)
    body |= {"model": "claude-sonnet-4-5", "max_tokens": 64, "system": system}
    return "/v1/messages", body


async def told_of(mode: str, wire: str, folder: Path) -> Sequence[Mapping[str, Any]]:
    """Hold the conversation in a mode; return what is told of its requests."""
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    for name in QUESTIONS:
        text = f"# {name}\n\n" + f"Old {name}, wide {name}, far {name}. " * 12
        (notes / f"{name}.md").write_text(text)
    async with running_provider(FakeProvider(minimum_cached_tokens=128)) as provider:
        path = folder / f"{mode}.yaml"
        url = f"http://127.0.0.1:{provider.port}"
        path.write_text(CONFIG.format(url=url, mode=mode, notes=notes))
        async with running_app(Settings(path), {}) as app:
            await talk(app.addresses.listen, wire)
            return list(reversed(list(app.feed.requests(99))))


async def talk(address: str, wire: str) -> None:
    headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for number in range(len(QUESTIONS)):
            path, body = conversation(wire, number)
            async with session.post(f"{address}{path}", json=body) as reply:
                assert reply.status == 200, await reply.text()


@pytest.mark.parametrize(("wire", "is_marked"), [("anthropic", 1), ("openai_chat", 0)])
async def test_what_is_predicted_is_what_compiling_then_reads(
    wire: str, is_marked: int, tmp_path: Path
) -> None:
    tried = await told_of("shadow", wire, tmp_path)
    sent = await told_of("compile", wire, tmp_path)

    assert [each["verdict"]["verdict"] for each in sent] == ["first"] + ["extended"] * 5
    for ahead, behind in zip(tried, sent, strict=True):
        prediction, newest = ahead["prediction"], behind["placements"][-1]
        assert prediction["prefix"] == "kept"
        assert prediction["verdict"] == behind["verdict"]["verdict"]
        assert prediction["input_tokens"] == behind["estimated_input_tokens"]
        read = behind["usage"]["cache_read"]
        # Without markers the newest block is read one turn sooner, in steps of 128; and
        # short prompts are cached from a length on that they reach by their blocks.
        late = 0 if is_marked else newest["tokens"] + 256
        if ahead["usage"]["cache_read"] or is_marked:
            least = read * 0.94 - late
            assert least <= prediction["cache_read_tokens"] <= read * 1.06 + 1
        else:
            assert prediction["cache_read_tokens"] == 0
    assert [len(each["placements"]) for each in tried] == [1, 2, 3, 4, 5, 6]
    last = tried[-1]
    assert last["prediction"]["cache_read_tokens"] > last["usage"]["cache_read"] + 200
