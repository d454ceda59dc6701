"""The command line: the only place for arguments, printing and exit codes.

Rules:
- 0 done, 2 a mistake in what was given, 3 a refusal of the compiler, 130 interrupted.
- What a program reads goes to stdout, what a person is told of trouble to stderr.
- A command imports what it needs when it runs: `check` does not load telemetry.
"""

import argparse
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from deuz_proxy import __version__
from deuz_proxy.errors import ConfigInvalid

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
_LAST_PORT = 65_535

Result = TypeVar("Result")
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = make_parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options)
    except ConfigInvalid as fault:
        print(fault, file=sys.stderr)
        return EXIT_MISTAKE
    except OSError as fault:
        print(f"deuz-sidecar: {fault.strerror or fault}", file=sys.stderr)
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="deuz-sidecar",
        description="A transparent LLM-API proxy: watches the prompt-cache prefix, "
        "places context behind it, recovers from context overflow.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_run(commands)
    _add_demo(commands)
    _add_exec(commands)
    _add_check(commands)
    _add_compile(commands)
    _add_lint(commands)
    _add_provider(commands)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="run the sidecar")
    run.add_argument("--config", type=Path, metavar="FILE")
    run.add_argument("--listen", type=_address, metavar="H:P")
    run.add_argument("--admin", type=_address, metavar="H:P")
    run.add_argument("--workers", type=_one_worker, default=1, metavar="N")
    run.set_defaults(command=_run)


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser("demo", help="show everything with a fake provider")
    demo.add_argument(
        "--once", action="store_true", help="end when the script is through"
    )
    demo.set_defaults(command=_demo)


def _add_exec(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    execute = commands.add_parser("exec", help="run a command behind the sidecar")
    execute.add_argument("--config", type=Path, metavar="FILE")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD …")
    execute.set_defaults(command=_exec)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    check = commands.add_parser("check", help="validate a config file")
    check.add_argument("file", type=Path, metavar="FILE")
    check.set_defaults(command=_check)


def _add_compile(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    compiler = commands.add_parser("compile", help="run the pure compiler over JSON")
    compiler.add_argument("--profile", choices=["project-context-compiler"])
    compiler.add_argument("--request", type=Path, metavar="F")
    compiler.add_argument("--candidates", type=Path, metavar="F")
    compiler.add_argument("--policy", type=Path, metavar="F")
    compiler.add_argument("--search", choices=["greedy", "exact"], default="greedy")
    compiler.set_defaults(command=_compile)


def _add_lint(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    lint = commands.add_parser("lint", help="report prefix breaks in captured bodies")
    lint.add_argument("file", type=Path, metavar="FILE.jsonl")
    lint.add_argument("--json", action="store_true", dest="is_json")
    lint.set_defaults(command=_lint)


def _add_provider(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    provider = commands.add_parser("fake-provider", help="run the test provider")
    provider.add_argument(
        "--listen", type=_address, default="127.0.0.1:4140", metavar="H:P"
    )
    provider.add_argument("--window", type=int, default=200_000, metavar="N")
    provider.set_defaults(command=_provider)


def _run(options: argparse.Namespace) -> int:
    from deuz_proxy.running import Settings, run_until_stopped

    settings = Settings(options.config, options.listen, options.admin)
    _loop(run_until_stopped(settings, os.environ, _tell))
    return 0


def _demo(options: argparse.Namespace) -> int:
    from deuz_proxy.demo.show import run_demo

    return _loop(run_demo(tell=_tell, is_once=options.once))


def _exec(options: argparse.Namespace) -> int:
    from deuz_proxy.running import Settings, run_command

    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        print("deuz-sidecar exec: no command given after --", file=sys.stderr)
        return EXIT_MISTAKE
    settings = Settings(options.config, "127.0.0.1:0", "127.0.0.1:0")
    return _loop(run_command(argv, settings, os.environ))


def _check(options: argparse.Namespace) -> int:
    from deuz_proxy.config.load import load_config

    load_config(options.file, os.environ)
    print(f"{options.file}: valid")
    return 0


def _compile(options: argparse.Namespace) -> int:
    from deuz_compiler import compile_json, compile_profile, estimate_text

    if options.profile is None:
        output, code = compile_json(sys.stdin.buffer.read(), estimate=estimate_text)
        sys.stdout.buffer.write(output)
        return code
    files = (options.request, options.candidates, options.policy)
    if any(file is None for file in files):
        print(
            "deuz-sidecar compile: a profile needs --request, --candidates, --policy",
            file=sys.stderr,
        )
        return EXIT_MISTAKE
    request, candidates, policy = (file.read_bytes() for file in files)
    text, code = compile_profile(request, candidates, policy, search=options.search)
    sys.stdout.write(text)
    return code


def _lint(options: argparse.Namespace) -> int:
    from deuz_proxy.lint import lint_file

    for line in lint_file(options.file, is_json=options.is_json):
        print(line)
    return 0


def _provider(options: argparse.Namespace) -> int:
    from deuz_proxy.demo.provider import run_provider

    host, _, port = options.listen.rpartition(":")
    _loop(run_provider(host, int(port), announce=_tell, window_tokens=options.window))
    return 0


def _loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    import uvloop

    return uvloop.run(coroutine)


def _tell(text: str) -> None:
    print(text, flush=True)


def _address(text: str) -> str:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port")
    return text


def _one_worker(text: str) -> int:
    if text != "1":
        raise argparse.ArgumentTypeError("this version runs one worker")
    return 1
