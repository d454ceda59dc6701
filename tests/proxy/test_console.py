"""What commands print and read: real processes, with streams that misbehave."""

import errno
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from deuz_proxy.console import output_words
from deuz_testing.ports import free_port
from deuz_testing.waiting import WAIT_SECONDS, block_until

COMMAND = [sys.executable, "-m", "deuz_proxy"]
BODY = '{"model":"m","messages":[{"role":"user","content":"x"}]}\n'


def run(command: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell command in which `deuz` is the program."""
    program = f'deuz() {{ "{sys.executable}" -m deuz_proxy "$@"; }}; '
    return subprocess.run(
        ["bash", "-c", program + command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environ},
    )


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    file = tmp_path / "captured.jsonl"
    file.write_text(BODY * 20_000)
    return file


def test_a_reader_that_left_ends_a_report_without_a_word(captured: Path) -> None:
    ended = run(f"deuz lint --json {captured} | head -1; echo ${{PIPESTATUS[0]}}")

    assert ended.stdout.splitlines()[1] == "141"
    assert ended.stderr == ""


def test_a_full_disk_is_told_as_what_it_is(tmp_path: Path) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text("listen: 127.0.0.1:0\n")

    ended = run(f"deuz check {file} > /dev/full")

    assert ended.returncode == 2
    assert ended.stderr == (
        "deuz-sidecar: the output cannot be written: no space left on device\n"
    )


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("deuz compile <&-", 2, "standard input is empty"),
        ("deuz check /nowhere.yaml >&-", 2, "no such file"),
        ("deuz --version >&-", 0, ""),
    ],
)
def test_a_stream_that_is_closed_is_empty_or_read_by_nobody(
    command: str, code: int, words: str
) -> None:
    ended = run(command)

    assert ended.returncode == code, ended.stderr
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["deuz exec -h", "deuz compile -h"])
def test_help_can_be_read_where_the_locale_has_no_such_letters(command: str) -> None:
    ended = run(command, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert ended.returncode == 0, ended.stderr
    assert "\\u2026" in ended.stdout


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_sidecar_serves_on_when_nobody_reads_what_it_says(
    closed: str, tmp_path: Path
) -> None:
    file, seen = tmp_path / "deuz.yaml", tmp_path / "seen"
    # Nobody reads the address of a free port.
    admin = f"127.0.0.1:{free_port()}"
    config = f'listen: 127.0.0.1:0\nadmin: {{listen: "{admin}"}}\n'
    file.write_text(config)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with seen.open("wb") as other:
        streams = {"stdout": other, "stderr": other, closed: write_end}
        process = subprocess.Popen(
            [*COMMAND, "run", "--config", str(file)],
            stdin=subprocess.DEVNULL,
            **streams,  # type: ignore[call-overload]  # One of them is a number.
        )
    os.close(write_end)

    # A reload says something; whoever cannot be heard must not end for it. What the
    # first says is said by the time that the second is in force.
    block_until(lambda: drain_seconds(admin) is not None)
    for drain in (7, 8):
        file.write_text(f"{config}limits: {{drain_seconds: {drain}}}\n")
        process.send_signal(signal.SIGHUP)
        block_until(lambda wanted=drain: drain_seconds(admin) == wanted)  # type: ignore[misc]

    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_SECONDS) == 0


def drain_seconds(admin: str) -> float | None:
    """Return what the config in force says; none where nobody answers."""
    try:
        with urllib.request.urlopen(
            f"http://{admin}/api/v1/config", timeout=WAIT_SECONDS
        ) as answer:
            seconds: float = json.load(answer)["limits"]["drain_seconds"]
    except (urllib.error.URLError, ConnectionError):
        return None
    return seconds


def test_only_failures_of_writing_are_told_as_the_outputs() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")

    assert output_words(full) == (
        "the output cannot be written: no space left on device"
    )
    assert output_words(OSError(errno.ENOSPC, "No space", "a.yaml")) is None
    assert output_words(OSError(errno.ENOENT, "No such file")) is None
