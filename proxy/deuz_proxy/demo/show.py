"""The demo: a fake provider, a sidecar with sample sources, and a scripted agent.

Rules:
- Everything is real but the provider: sockets, files, ledger, metrics, page.
- What is printed is what the sidecar itself reported of each request.
"""

import asyncio
import json
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import aiohttp

from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.demo.provider import (
    FakeProvider,
    ProviderRequest,
    Reply,
    Text,
    ToolCall,
)
from deuz_proxy.demo.script import (
    FACT,
    MODEL,
    STEPS,
    SYSTEM,
    TOOLS,
    WINDOW_TOKENS,
    Step,
)
from deuz_proxy.demo.words import LEGEND, count_words, describe

_CONFIG = """
listen: 127.0.0.1:{port}
admin: {{listen: "127.0.0.1:{admin}"}}
upstreams:
  anthropic: {{url: "{url}", wire: anthropic}}
routes:
  - {{path: /v1/messages, mode: compile}}
models:
  {model}: {{context_window: {window}, max_output_tokens: 1024}}
context:
  budget: {{max_tokens: 600}}
  refresh: {{deadline_ms: 3000}}
  sources:
    - {{id: notes, kind: rag, type: files, path: "{notes}"}}
    - {{id: memory, kind: memory, type: store}}
    - id: rules
      kind: memory
      type: static
      records:
        - id: tone
          text: "The team wants short answers and the number that proves them."
          mandatory: true
"""
_HOST = "127.0.0.1"
_PORTS = (4141, 4142)
_MINIMUM_CACHED_TOKENS = 128

Json = dict[str, Any]
Tell = Callable[[str], None]


async def run_demo(*, tell: Tell, is_once: bool) -> int:
    """Run the demo and return the exit code: 0, or 1 if the story went wrong.

    Without `is_once` it stays up until SIGINT or SIGTERM.
    """
    provider = FakeProvider(
        window_tokens=WINDOW_TOKENS,
        minimum_cached_tokens=_MINIMUM_CACHED_TOKENS,
        script=_answer,
    )
    await provider.start()
    try:
        with tempfile.TemporaryDirectory(prefix="deuz-demo-") as folder:
            path = _write_config(Path(folder), provider.url, is_once=is_once)
            async with running_app(Settings(path), {}) as app:
                is_good = await _tell_story(app, tell)
                is_good = is_good and _was_forgotten(provider)
                if not is_once:
                    _tell_where(app, tell)
                    await _until_stopped()
    finally:
        await provider.close()
    return 0 if is_good else 1


def _write_config(folder: Path, url: str, *, is_once: bool) -> Path:
    notes = folder / "notes"
    notes.mkdir()
    for note in resources.files("deuz_proxy.demo").joinpath("notes").iterdir():
        (notes / note.name).write_bytes(note.read_bytes())
    port, admin = _PORTS if not is_once and _are_free(_PORTS) else (0, 0)
    path = folder / "deuz.yaml"
    path.write_text(
        _CONFIG.format(
            port=port,
            admin=admin,
            url=url,
            notes=notes,
            model=MODEL,
            window=WINDOW_TOKENS,
        )
    )
    return path


def _are_free(ports: Sequence[int]) -> bool:
    """Tell whether nobody listens there, such as a sidecar that runs already."""
    for port in ports:
        try:
            socket.create_server((_HOST, port)).close()
        except OSError:
            return False
    return True


async def _tell_story(app: App, tell: Tell) -> bool:
    tell("A scripted agent talks to a fake provider, through the sidecar.\n")
    seen: list[Mapping[str, Any]] = []
    history: list[Json] = []
    async with aiohttp.ClientSession() as session:
        for number, step in enumerate(STEPS, start=1):
            tell(f"question {number}: {step.text}")
            if step.remark:
                tell(f"    ({step.remark})")
            await _operate(app, session, step, tell)
            seen += await _talk(app, session, history, step, tell)
    return _is_complete(seen, tell)


async def _operate(
    app: App, session: aiohttp.ClientSession, step: Step, tell: Tell
) -> None:
    """Do what somebody does at the admin address before the question is asked."""
    path = f"/api/v1/memory/default/{FACT}"
    url = f"{app.addresses.admin}{path}"
    if step.remembers:
        async with session.put(url, json={"text": step.remembers}) as reply:
            reply.raise_for_status()
        tell(f"    (somebody remembers a record: PUT {path})")
    if step.forgets:
        async with session.delete(url) as reply:
            reply.raise_for_status()
            gone = await reply.json()
        blocks = count_words(gone["placements_redacted"], "block")
        tell(f"    (somebody forgets it: DELETE {path}, taken out of {blocks})")


async def _talk(
    app: App,
    session: aiohttp.ClientSession,
    history: list[Json],
    step: Step,
    tell: Tell,
) -> list[Mapping[str, Any]]:
    """Ask one question and follow the agent's loop until it has answered."""
    history.append({"role": "user", "content": step.text})
    seen: list[Mapping[str, Any]] = []
    while True:
        answer = await _send(app, session, history, step)
        (newest,) = app.feed.requests(1)
        told = app.feed.request(str(newest["id"])) or newest
        seen.append(told)
        for line in describe(told):
            tell(f"    {line}")
        history.append({"role": "assistant", "content": answer})
        calls = [block for block in answer if block["type"] == "tool_use"]
        if not calls:
            return seen
        tell(f"    tool {calls[0]['name']} gives {len(step.result)} characters")
        history.append(
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": call["id"],
                        "content": step.result,
                    }
                    for call in calls
                ],
            }
        )


async def _send(
    app: App, session: aiohttp.ClientSession, history: Sequence[Json], step: Step
) -> list[Json]:
    body = {
        "model": MODEL,
        "max_tokens": 512,
        "system": [
            {
                "type": "text",
                "text": step.system_note + SYSTEM,
                "cache_control": {"type": "ephemeral"},
            }
        ],
        "tools": TOOLS,
        "messages": [*history[:-1], _marked(history[-1])],
    }
    async with session.post(
        f"{app.addresses.listen}/v1/messages",
        json=body,
        headers={"x-api-key": "demo", "anthropic-version": "2023-06-01"},
    ) as response:
        answer = await response.json()
    if response.status != 200:  # noqa: PLR2004
        raise RuntimeError(f"the demo's request was answered {response.status}")
    return list(answer["content"])


def _marked(message: Json) -> Json:
    """Put the cache marker on the newest turn, as agents do."""
    content = message["content"]
    blocks = (
        [{"type": "text", "text": content}] if isinstance(content, str) else content
    )
    marker = {"cache_control": {"type": "ephemeral"}}
    return {**message, "content": [*blocks[:-1], {**blocks[-1], **marker}]}


def _answer(request: ProviderRequest) -> Reply | None:
    """Play the model: call the step's tool, then answer; anything else is a summary."""
    step = _current_step(request)
    if step is None:
        return Reply((Text("Orders are slow: payment retries hold connections."),))
    if step.tool and not _has_result(request, step):
        query = {"sql": "select state, count(*) from pg_stat_activity group by 1"}
        arguments = query if step.tool == "run_query" else {"service": "payments"}
        call = ToolCall(step.tool, arguments, f"toolu_demo_{STEPS.index(step)}")
        return Reply((Text("I look it up."), call))
    return Reply((Text(step.answer),))


def _current_step(request: ProviderRequest) -> Step | None:
    """Return the step whose question is the newest one in the request."""
    text = json.dumps(request.payload.get("messages", []))
    places = {text.rfind(json.dumps(step.text)[1:-1]): step for step in STEPS}
    newest = max(places)
    is_summary = "tools" not in request.payload
    return None if newest < 0 or is_summary else places[newest]


def _has_result(request: ProviderRequest, step: Step) -> bool:
    text = json.dumps(request.payload.get("messages", []))
    question = text.rfind(json.dumps(step.text)[1:-1])
    return text.find('"tool_result"', question) >= 0


def _is_complete(seen: Sequence[Mapping[str, Any]], tell: Tell) -> bool:
    """Check that the story was told: breaks, a recovery, and no unwanted change."""
    breaks = [
        told["verdict"] for told in seen if told["verdict"]["verdict"] == "broken"
    ]
    recovered = [
        overflow
        for told in seen
        for overflow in told["overflows"]
        if overflow["outcome"] == "recovered"
    ]
    placed = sum(
        placement["is_new"] for told in seen for placement in told["placements"]
    )
    unwanted = sum(told["sidecar_mutations"] for told in seen)
    sums = (
        count_words(len(seen), "request"),
        f"{count_words(placed, 'block')} placed",
        count_words(len(breaks), "prefix break"),
        f"{count_words(len(recovered), 'overflow')} recovered",
        f"{count_words(unwanted, 'change')} of the prefix by the sidecar unasked",
    )
    tell(f"\n{count_words(len(STEPS), 'question')}, {', '.join(sums)}\n\n{LEGEND}")
    causes = {(v["cause"], v["owner"]) for v in breaks}
    is_told = causes >= {("system_time", "client"), ("record_forgotten", "sidecar")}
    return bool(is_told and recovered and placed and not unwanted)


def _was_forgotten(provider: FakeProvider) -> bool:
    """Tell whether the provider got the record, and no more once it was forgotten."""
    (record,) = [step.remembers.encode() for step in STEPS if step.remembers]
    (after,) = [step.text.encode() for step in STEPS if step.forgets]
    told = [request.body for request in provider.requests if record in request.body]
    return bool(told) and not any(after in body for body in told)


def _tell_where(app: App, tell: Tell) -> None:
    tell(f"\npage     {app.addresses.admin}/")
    tell(f"metrics  {app.addresses.admin}/metrics")
    tell(f"proxy    {app.addresses.listen}")
    tell("\nPress Ctrl+C to end.")


async def _until_stopped() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    await stop.wait()
