"""Each source's page: its config runs as it stands, and what it offers is placed.

Rules:
- Only what cannot be here is put in place of what the page names: the provider, the
  service, the program of a server; and the deadline, on a machine of any speed.
- The folder beside the config is what the pages speak of: `docs`.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.demo.provider import FakeProvider
from deuz_proxy.sources.build import transcripts_of
from deuz_testing.http_service import running_service
from deuz_testing.provider import running_provider

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = '[npx, -y, "@example/wiki-server"]'
SERVER = ROOT / "tests/support/deuz_testing/mcp_server.py"
SERVICE = "https://kb.internal.example/query"
QUESTION = "Where do rivers run?"
FOLDER = {
    "rivers.md": "# Rivers\n\nRivers run to the sea.\n",
    "tea.md": "# Tea\n\nGreen or black.\n\n# Milk\n\nCold.\n\n# Cake\n\nWarm.\n",
    "hats/SKILL.md": "---\nname: rivers\ndescription: Where rivers run.\n---\n\nSea.\n",
}
AROUND = """\
listen: 127.0.0.1:0
admin: {{listen: "127.0.0.1:0"}}
upstreams:
  anthropic: {{url: "http://127.0.0.1:{port}", wire: anthropic}}
"""
"""What the pages leave to the defaults: addresses that a test cannot have."""

PLACED = {
    "static": ("tone", "escalation"),
    "store": ("rivers",),
    "files": ("rivers.md#rivers",),
    "http": ("kb-1",),
    "mcp": ("1",),
    "skills": ("rivers", "rivers/SKILL.md"),
}
"""Records that the question finds in each source, by page."""


def config_of(page: str) -> str:
    text = (ROOT / "docs/sources" / f"{page}.md").read_text()
    found = re.search(r"^```yaml config\n(.*?)^```$", text, re.M | re.S)
    assert found, f"docs/sources/{page}.md shows no config"
    return re.sub(r"^  refresh: .*\n", "", found[1], flags=re.M).replace(
        "context:\n", "context:\n  refresh: {deadline_ms: 30000}\n", 1
    )


class Talk:
    """One client of a running sidecar."""

    def __init__(self, app: App, session: aiohttp.ClientSession) -> None:
        self.app = app
        self._session = session

    async def ask(self, *said: str) -> None:
        """Send a conversation: the user's turn, the assistant's, and so on."""
        roles = ("user", "assistant")
        body = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 64,
            "messages": [
                {"role": roles[i % 2], "content": text} for i, text in enumerate(said)
            ],
        }
        url = f"{self.app.addresses.listen}/v1/messages"
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        async with self._session.post(url, json=body, headers=headers) as reply:
            assert reply.status == 200, await reply.text()

    async def remember(self, record: str, text: str) -> None:
        url = f"{self.app.addresses.admin}/api/v1/memory/default/{record}"
        async with self._session.put(url, json={"text": text}) as reply:
            assert reply.status == 200, await reply.text()

    async def compiled(self) -> Mapping[str, Any]:
        """Return what the newest request compiled."""
        (newest,) = (await self._read("/api/v1/requests?limit=1"))["requests"]
        whole = await self._read(f"/api/v1/requests/{newest['id']}")
        compiled: Mapping[str, Any] = whole["compile"]
        return compiled

    async def _read(self, path: str) -> Any:
        async with self._session.get(f"{self.app.addresses.admin}{path}") as reply:
            return await reply.json()


@asynccontextmanager
async def running(page: str, folder: Path) -> AsyncIterator[Talk]:
    for name, text in FOLDER.items():
        file = folder / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    records = {"default": [{"id": "kb-1", "text": "rivers run to the sea"}]}
    program = json.dumps([sys.executable, str(SERVER), "stdio"])
    async with (
        running_service(records) as service,
        running_provider(FakeProvider()) as provider,
    ):
        path = folder / "deuz.yaml"
        config = config_of(page).replace(SERVICE, service.url).replace(PROGRAM, program)
        path.write_text(AROUND.format(port=provider.port) + config)
        async with (
            running_app(Settings(path), {}) as app,
            aiohttp.ClientSession() as session,
        ):
            yield Talk(app, session)


def selected(compiled: Mapping[str, Any]) -> set[str]:
    return {each["record_id"] for each in compiled["records"] if each["is_selected"]}


@pytest.mark.parametrize("page", sorted(PLACED))
async def test_what_a_pages_config_says_is_placed(page: str, tmp_path: Path) -> None:
    async with running(page, tmp_path) as talk:
        await talk.remember("rivers", "Rivers run to the sea.")
        await talk.ask(f"{QUESTION} /rivers")

        compiled = await talk.compiled()

    (source,) = compiled["sources"]
    assert source["status"] == "ok", source
    assert set(PLACED[page]) <= selected(compiled)


async def test_what_was_said_in_one_conversation_is_placed_in_another(
    tmp_path: Path,
) -> None:
    async with running("transcript", tmp_path) as talk:
        await talk.ask(QUESTION, "To the sea.", "Thank you!")
        for transcript in transcripts_of(talk.app.runtime.sources):
            await transcript.settled()
        await talk.ask("Tell me again where rivers run.")

        compiled = await talk.compiled()

    assert [source["status"] for source in compiled["sources"]] == ["ok"]
    assert len(selected(compiled)) == 1
