import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from deuz_proxy.cli import main, make_parser
from deuz_proxy.config.load import parse_config
from deuz_testing.sidecar_process import running_process, wait_for_addresses
from deuz_testing.waiting import WAIT_SECONDS, block_until

BROKEN = """
listen: nowhere
routes:
  - {path: /v1/messages, mode: compose}
wrong: 1
"""


def run(*arguments: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "deuz_proxy", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def until_told(log: Path, words: str) -> None:
    block_until(lambda: words in log.read_text())


def test_check_of_a_good_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text("listen: 127.0.0.1:0\n")

    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: valid\n"


def test_check_warns_of_what_has_no_effect_and_still_ends_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text("routes: [{path: /v1/messages, mode: compile}]\n")

    assert main(["check", str(file)]) == 0

    told = capsys.readouterr()
    assert told.out == f"{file}: valid\n"
    assert told.err.startswith(f"{file}: warning: routes[0] (/v1/messages): ")


@pytest.mark.parametrize("command", [["check"], ["run", "--config"]])
def test_a_config_with_mistakes_names_all_of_them_by_line_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "deuz.yaml"
    file.write_text(BROKEN)

    assert main([*command, str(file)]) == 2

    told = capsys.readouterr().err
    for place in (":2", ":4", ":5"):
        assert f"{file}{place}" in told
    assert "allowed" in told


def test_a_missing_config_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "/nowhere/deuz.yaml"]) == 2
    assert "/nowhere/deuz.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["run", "--listen", "4141"],
        ["run", "--listen", "h:70000"],
        ["run", "--workers", "0"],
        ["run", "--workers", "two"],
        ["run", "--workers", "65"],
        ["fake-provider", "--window", "0"],
    ],
)
def test_arguments_that_make_no_sense_end_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_memory_that_cannot_be_opened_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "deuz.yaml"
    config.write_text("memory: {url: sqlite:///memory.db}\n")
    # As far as `check` looks at it, it is one of ours.
    (tmp_path / "memory.db").write_bytes(b"SQLite format 3\0 and nothing else")
    options = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]

    assert main(["run", "--config", str(config), *options]) == 2

    assert capsys.readouterr().err == (
        f"deuz-sidecar: store {tmp_path}/memory.db cannot be used: file is not a "
        "database\n"
    )


def test_an_address_that_is_taken_ends_with_2(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "--listen", address, "--admin", "127.0.0.1:0"]) == 2

    assert capsys.readouterr().err == (
        f"deuz-sidecar: address {address} cannot be listened on: address already in "
        "use; choose another with --listen H:P (port 0: any free one)\n"
    )


def test_a_taken_admin_address_is_told_apart(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["run", "--listen", "127.0.0.1:0", "--admin", address]) == 2

    told = capsys.readouterr().err
    assert f"admin address {address} cannot" in told
    assert "--admin H:P" in told


def test_every_command_of_the_contract_has_help() -> None:
    shown = make_parser().format_help()

    for name in ("run", "demo", "exec", "check", "compile", "lint", "fake-provider"):
        assert name in shown


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.strip()


def test_a_command_runs_behind_a_sidecar_and_gives_its_exit_code(
    capfd: pytest.CaptureFixture[str],
) -> None:
    script = (
        "import os, sys, urllib.request, urllib.error\n"
        "url = os.environ['ANTHROPIC_BASE_URL']\n"
        "assert os.environ['OPENAI_BASE_URL'] == url + '/v1'\n"
        "try: urllib.request.urlopen(url + '/@nobody/x')\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
        "sys.exit(7)\n"
    )

    code = main(["exec", "--", sys.executable, "-c", script])

    assert (code, capfd.readouterr().out) == (7, "404\n")


def test_a_command_that_ends_by_a_signal_gives_the_shells_code() -> None:
    script = "import os; os.kill(os.getpid(), 15)"

    assert main(["exec", sys.executable, "-c", script]) == 143


@pytest.mark.parametrize(
    ("command", "code"), [([], 2), (["/nowhere/no-such-command"], 127)]
)
def test_a_command_that_is_not_there_is_told_by_the_code(
    command: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["exec", "--", *command]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert "command" in told.err


def test_a_command_that_cannot_be_run_is_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)

    codes = [main(["exec", "--", each]) for each in (str(script), "x" * 5_000)]

    told = capsys.readouterr().err
    assert codes == [126, 126]
    assert f"{script}: what its first line names is not there" in told
    assert f"{'x' * 200}: file name too long" in told
    assert "x" * 201 not in told


def test_a_signal_to_exec_is_passed_on_to_the_command(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "deuz_proxy", "exec", "--"]
    with running_process([*command, sys.executable, "-c", script], log, None) as ran:
        until_told(log, "ready")
        ran.terminate()
        assert ran.wait(WAIT_SECONDS) == 9


def test_compile_reads_stdin_and_tells_malformed_input_by_code_2() -> None:
    ended = run("compile", text="not json")

    assert ended.returncode == 2
    assert "not JSON" in ended.stdout


def test_compile_without_input_says_so_and_not_that_it_is_no_json() -> None:
    ended = run("compile", text="\n")

    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "deuz-sidecar compile: standard input is empty\n"


def test_compile_takes_files_with_a_profile_alone() -> None:
    ended = run("compile", "--request", "c.json", text="{}")

    assert ended.returncode == 2
    assert "--request, --candidates, --policy go with --profile" in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "{}"],
        ["compile", "--profile", "project-context-compiler"]
        + [
            text
            for name in ("request", "candidates", "policy")
            for text in (f"--{name}", "{}")
        ],
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nope")

    assert main([each.format(missing) for each in arguments]) == 2
    assert capsys.readouterr().err == (
        f"deuz-sidecar: {missing}: cannot be read: no such file or directory\n"
    )


def test_every_option_that_is_shown_is_explained() -> None:
    (commands,) = (
        action
        for action in make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    silent = [
        f"{name} {action.dest}"
        for name, parser in commands.choices.items()
        for action in parser._actions
        if not action.help
    ]

    assert silent == []
    assert "--workers N" in commands.choices["run"].format_help()


def test_a_profile_needs_its_three_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "--profile", "project-context-compiler"]) == 2
    assert "--request" in capsys.readouterr().err


def test_a_profile_prints_the_golden_form(
    reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = reference / "conformance/project-context-compiler"
    cases = folder / "compiler-v1"
    golden = json.loads(
        (folder / "golden/python-v0.1.0/budget-slack-roomy.json").read_text()
    )
    assert golden
    code = main(
        [
            "compile",
            "--profile",
            "project-context-compiler",
            "--request",
            str(cases / "budget-slack.request.json"),
            "--candidates",
            str(cases / "budget-slack.candidates.json"),
            "--policy",
            str(cases / "compiler-policy-v1.json"),
        ]
    )

    assert code in {0, 3}
    assert json.loads(capsys.readouterr().out)


def test_lint_prints_a_report_of_captured_bodies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bodies.jsonl"
    body = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
    file.write_text(f"{json.dumps(body)}\n" * 2)

    assert main(["lint", str(file)]) == 0
    assert capsys.readouterr().out


def test_lint_of_a_file_without_one_body_says_what_a_line_has_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pretty.json"
    file.write_text('{\n  "model": "m",\n  "messages": []\n}\n')

    for options in ([], ["--json"]):
        assert main(["lint", *options, str(file)]) == 2
        assert capsys.readouterr().err == (
            f"deuz-sidecar lint: {file}: no line is a request body; each has to be a "
            "whole one\n"
        )


def test_lint_of_an_empty_file_has_nothing_to_complain_of(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.write_text("\n")

    assert main(["lint", str(file)]) == 0


@pytest.mark.parametrize("command", ["run", "demo", "fake-provider"])
def test_what_a_command_does_not_know_is_told_with_what_it_takes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--nope", "extra"])

    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told.startswith(f"usage: deuz-sidecar {command} ")
    assert (
        f"deuz-sidecar {command}: error: unrecognized arguments: --nope extra" in told
    )


def test_a_taken_address_of_the_fake_provider_is_told_as_one_of_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["fake-provider", "--listen", address]) == 2

    assert capsys.readouterr().err == (
        f"deuz-sidecar: address {address} cannot be listened on: address already in "
        "use; choose another with --listen H:P (port 0: any free one)\n"
    )


def test_run_ends_with_0_when_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environ = {**os.environ}
    command = [sys.executable, "-m", "deuz_proxy", "run"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    with running_process(command, log, environ) as process:
        listen, admin = wait_for_addresses(process, log)
        process.terminate()
        assert process.wait(WAIT_SECONDS) == 0
    assert listen != admin


def test_the_fake_provider_runs_from_the_command_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "deuz_proxy", "fake-provider"]
    with running_process([*command, "--listen", "127.0.0.1:0"], log, None) as process:
        until_told(log, "http://")
        url = "http://" + log.read_text().split("http://")[1].split()[0]
        until_told(log, "openai")
        config = log.read_text().partition("FILE:\n")[2]
        upstreams = parse_config(
            config, name="told", folder=tmp_path, environ={}
        ).upstreams
        assert {upstreams[name].url for name in ("anthropic", "openai")} == {url}
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/nothing", timeout=WAIT_SECONDS)
        refused.value.close()
        process.terminate()
        assert process.wait(WAIT_SECONDS) in {0, -signal.SIGTERM}
