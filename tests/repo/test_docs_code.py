"""Code in the docs runs: configs, commands, queries, and programs against a sidecar."""

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from deuz_compiler import error_body
from deuz_proxy.cli import make_parser
from deuz_proxy.config.load import parse_config
from deuz_proxy.demo.provider import FakeProvider
from deuz_proxy.errors import ConfigInvalid
from deuz_proxy.running import base_urls
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar_process import Sidecar, running_sidecar

ROOT = Path(__file__).resolve().parents[2]
LISTEN, ADMIN = "http://127.0.0.1:4141", "http://127.0.0.1:4142"
UPSTREAMS = """\
upstreams:
  anthropic: {{url: "{provider}", wire: anthropic}}
  openai: {{url: "{provider}", wire: openai}}
"""


class Block(NamedTuple):
    """A fenced block: its page, what stands behind the fence, and its text."""

    page: str
    label: str
    text: str


def list_blocks() -> Iterator[Block]:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        found = re.findall(r"^```([^\n]+)\n(.*?)^```$", page.read_text(), re.M | re.S)
        yield from (Block(page.name, label, text) for label, text in found)


def blocks(label: str) -> list[Block]:
    found = [block for block in list_blocks() if block.label == label]
    assert found, f"no block {label}: its test would pass without looking at anything"
    return found


def lines(command: str) -> list[Block]:
    """Return every line of a shell block that calls the command."""
    return [
        block._replace(text=line)
        for block in blocks("sh")
        for line in block.text.splitlines()
        if line.split()[:1] == [command]
    ]


def name_of(block: Block) -> str:
    return f"{block.page}:{block.text.strip().splitlines()[0][:40]}"


def parse(text: str, folder: Path) -> None:
    (folder / "docs").mkdir(exist_ok=True)
    parse_config(text, name="deuz.yaml", folder=folder, environ={})


@pytest.mark.parametrize("block", blocks("yaml config"), ids=name_of)
def test_config_is_valid(block: Block, tmp_path: Path) -> None:
    parse(block.text, tmp_path)


def test_mistakes_are_told_as_shown(tmp_path: Path) -> None:
    (config,), (told,) = blocks("yaml mistakes"), blocks("text mistakes")

    with pytest.raises(ConfigInvalid) as caught:
        parse(config.text, tmp_path)

    assert "\n".join(caught.value.mistakes) == told.text.strip()


@pytest.mark.parametrize("block", lines("deuz-sidecar"), ids=name_of)
def test_command_is_one_of_the_command_line(block: Block) -> None:
    options = make_parser().parse_args(shlex.split(block.text)[1:])

    assert callable(options.command)


@pytest.mark.parametrize("block", lines("export"), ids=name_of)
def test_variable_is_one_that_exec_sets_and_leads_to_the_sidecar(block: Block) -> None:
    name, _, address = block.text.removeprefix("export ").partition("=")

    assert name in base_urls(LISTEN)
    assert address.startswith(LISTEN)


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_error_has_the_shape_shown(wire: str) -> None:
    (shown,) = blocks(f"json {wire}")

    body = error_body(wire, status=502, code="upstream_broken", message="…")

    assert json.loads(body) == json.loads(shown.text)


@pytest.mark.needs("prometheus")
@pytest.mark.e2e
def test_prometheus_takes_the_config_shown(tmp_path: Path) -> None:
    (block,) = blocks("yaml prometheus")
    config = tmp_path / "prometheus.yml"
    config.write_text(block.text.replace("dashboards/", f"{ROOT}/dashboards/"))

    ended = run("promtool", "check", "config", str(config))

    assert ended.returncode == 0, ended.stderr
    assert "0 rule files" not in ended.stdout


@pytest.mark.needs("prometheus")
@pytest.mark.e2e
@pytest.mark.parametrize("block", blocks("promql"), ids=name_of)
def test_query_is_understood_by_prometheus(block: Block, tmp_path: Path) -> None:
    rules = {"name": "docs", "rules": [{"record": "docs:query", "expr": block.text}]}
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [rules]}))

    ended = run("promtool", "check", "rules", str(path))

    assert ended.returncode == 0, ended.stdout + ended.stderr


def run(*command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environ},
    )


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("docs")
    with provider_in_thread(FakeProvider()) as provider:
        config = UPSTREAMS.format(provider=f"http://127.0.0.1:{provider.port}")
        with running_sidecar(folder, config) as running:
            yield running


@pytest.mark.e2e
@pytest.mark.parametrize("block", blocks("python"), ids=name_of)
def test_program_gets_its_answer_through_the_sidecar(
    block: Block, sidecar: Sidecar
) -> None:
    before = count_requests(sidecar)

    ended = run(
        sys.executable,
        "-c",
        block.text.replace(LISTEN, sidecar.url),
        **base_urls(sidecar.url),
        OPENAI_API_KEY="docs",
        ANTHROPIC_API_KEY="docs",
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    assert count_requests(sidecar) == before + 1


def count_requests(sidecar: Sidecar) -> int:
    with urllib.request.urlopen(f"{sidecar.admin}/api/v1/requests?limit=500") as reply:
        return len(json.load(reply)["requests"])


@pytest.mark.e2e
@pytest.mark.parametrize("block", lines("curl"), ids=name_of)
def test_address_is_answered(block: Block, sidecar: Sidecar) -> None:
    (address,) = re.findall(r"http://\S+", block.text)

    with urllib.request.urlopen(address.replace(ADMIN, sidecar.admin)) as reply:
        assert reply.status == 200
        assert reply.read()


@pytest.mark.e2e
def test_memory_commands_are_answered_as_they_follow_each_other(
    sidecar: Sidecar,
) -> None:
    shown = blocks("sh memory")
    commands = [line for block in shown for line in block.text.splitlines()]

    answers = []
    for command in commands:
        ended = run(*shlex.split(command.replace(ADMIN, sidecar.admin)))
        assert ended.returncode == 0, ended.stderr
        answers.append(ended.stdout)

    assert len(commands) >= 10
    assert all('"error"' not in answer for answer in answers), answers
    assert any("Ship on Friday" in answer for answer in answers)
    assert any('"forgotten":1' in answer for answer in answers)


@pytest.mark.e2e
def test_sidecar_says_where_it_answers_as_shown(sidecar: Sidecar) -> None:
    shown = next(b.text for b in blocks("text") if "listens on" in b.text)

    said = sidecar.log.read_text()

    here = shown.replace(LISTEN, sidecar.url).replace(ADMIN, sidecar.admin)
    assert said.startswith(here)
