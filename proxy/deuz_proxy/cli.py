"""The command line: the only place for arguments, printing and exit codes.

Rules:
- 0 done, 2 a mistake in what was given, 3 a refusal of the compiler, 130 interrupted,
  141 nobody reads the result.
- What a program reads goes to stdout, what a person is told of trouble to stderr.
- A command imports what it needs when it runs: `check` does not load telemetry.
- Advice on what to do stands here and in the docs, not in the errors themselves.
"""

import argparse
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from deuz_proxy import __version__
from deuz_proxy.arguments import address, window_tokens, worker_count
from deuz_proxy.console import (
    drop_output,
    flush_output,
    output_words,
    prepare_streams,
    read_input,
    say,
    say_aside_if_heard,
    say_if_heard,
)
from deuz_proxy.errors import (
    ConfigInvalid,
    ListenFailed,
    StoreUnusable,
    WorkerFailed,
)

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
EXIT_UNREAD = 141
_PROFILE_FILES = {
    "request": "with --profile: JSON file of the request: scope, required ids, budget",
    "candidates": "with --profile: JSON file of the candidates",
    "policy": "with --profile: JSON file of the policy",
}

Result = TypeVar("Result")
Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    prepare_streams()
    options, unknown = make_parser().parse_known_args(arguments)
    if unknown:
        # By the command's own parser, which says what the command takes.
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    command: Command = options.command
    try:
        return _finished(command(options))
    except BrokenPipeError:
        drop_output()
        return EXIT_UNREAD
    except (ConfigInvalid, WorkerFailed) as fault:
        print(fault, file=sys.stderr)
        return EXIT_MISTAKE
    except (ListenFailed, StoreUnusable, OSError) as fault:
        return _refuse(_start_words(fault))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _finished(code: int) -> int:
    flush_output()
    return code


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
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    run = commands.add_parser("run", help="run the sidecar")
    _add_config(run)
    run.add_argument(
        "--listen",
        type=address,
        metavar="H:P",
        help="address for applications, over the config; port 0 takes a free one "
        "(default: 127.0.0.1:4141)",
    )
    run.add_argument(
        "--admin",
        type=address,
        metavar="H:P",
        help="address of page and metrics, over the config (default: 127.0.0.1:4142)",
    )
    run.add_argument(
        "--workers",
        type=worker_count,
        default=1,
        metavar="N",
        help="processes that serve, 1 to 64; more than cores gain nothing (default: 1)",
    )
    run.set_defaults(command=_run)


def _add_config(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="YAML config; without one, requests are only observed",
    )


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser("demo", help="show everything with a fake provider")
    demo.add_argument(
        "--once", action="store_true", help="end when the script is through"
    )
    demo.set_defaults(command=_demo)


def _add_exec(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    execute = commands.add_parser("exec", help="run a command behind the sidecar")
    _add_config(execute)
    execute.add_argument(
        "argv",
        nargs=argparse.REMAINDER,
        metavar="-- CMD …",
        help="the command; it gets the base-URL variables of the common SDKs",
    )
    execute.set_defaults(command=_exec)


def _add_check(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    check = commands.add_parser("check", help="validate a config file")
    check.add_argument("file", type=Path, metavar="FILE", help="YAML config")
    check.set_defaults(command=_check)


def _add_compile(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    compiler = commands.add_parser(
        "compile",
        help="run the pure compiler over JSON",
        description="Without --profile, reads one JSON object from standard input, "
        '{"candidates": […], "policy": {…}, "facts": {…}}, and prints the result. '
        "With --profile, reads three files.",
    )
    compiler.add_argument(
        "--profile",
        choices=["project-context-compiler"],
        help="read and print another shape of the same compile",
    )
    for name, text in _PROFILE_FILES.items():
        compiler.add_argument(f"--{name}", type=Path, metavar="F", help=text)
    compiler.add_argument(
        "--search",
        choices=["greedy", "exact"],
        default="greedy",
        help="with --profile: take by rank, or look on where that finds nothing",
    )
    compiler.set_defaults(command=_compile)


def _add_lint(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    lint = commands.add_parser("lint", help="report prefix breaks in captured bodies")
    lint.add_argument(
        "file", type=Path, metavar="FILE.jsonl", help="one JSON body a line, in order"
    )
    lint.add_argument(
        "--json", action="store_true", dest="is_json", help="one JSON object a line"
    )
    lint.set_defaults(command=_lint)


def _add_provider(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    provider = commands.add_parser("fake-provider", help="run the test provider")
    provider.add_argument(
        "--listen",
        type=address,
        default="127.0.0.1:4140",
        metavar="H:P",
        help="address to serve at (default: %(default)s)",
    )
    provider.add_argument(
        "--window",
        type=window_tokens,
        default=200_000,
        metavar="N",
        help="tokens that fit, for every model (default: %(default)s)",
    )
    provider.add_argument(
        "--require-key",
        action="store_true",
        help="refuse requests without a key; any key will do",
    )
    provider.set_defaults(command=_provider)


def _run(options: argparse.Namespace) -> int:
    from deuz_proxy.tuning import load_calmly

    load_calmly()
    from deuz_proxy.running import Settings, run_until_stopped

    settings = Settings(options.config, options.listen, options.admin, options.workers)
    _loop(run_until_stopped(settings, os.environ, say_if_heard))
    return 0


def _demo(options: argparse.Namespace) -> int:
    from deuz_proxy.demo.show import run_demo

    return _loop(run_demo(tell=say, is_once=options.once))


def _exec(options: argparse.Namespace) -> int:
    from deuz_proxy.running import Settings, run_command

    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not any(argv[:1]):
        return _refuse("no command given after --", of="exec")
    settings = Settings(options.config, "127.0.0.1:0", "127.0.0.1:0")
    return _loop(run_command(argv, settings, os.environ, say_aside_if_heard))


def _check(options: argparse.Namespace) -> int:
    from deuz_proxy.config.load import load_config
    from deuz_proxy.config.warnings import list_warnings

    config = load_config(options.file, os.environ)
    for warning in list_warnings(config):
        print(f"{options.file}: warning: {warning}", file=sys.stderr)
    print(f"{options.file}: valid")
    return 0


def _compile(options: argparse.Namespace) -> int:
    from deuz_compiler import compile_json, compile_profile, estimate_text

    files = [getattr(options, name) for name in _PROFILE_FILES]
    names = ", ".join(f"--{name}" for name in _PROFILE_FILES)
    if options.profile is None:
        if any(files):
            return _refuse(f"{names} go with --profile alone", of="compile")
        given = read_input()
        if not given.strip():
            return _refuse("standard input is empty", of="compile")
        output, code = compile_json(given, estimate=estimate_text)
        sys.stdout.buffer.write(output)
        return code
    if not all(files):
        return _refuse(f"a profile needs {names}", of="compile")
    request, candidates, policy = (file.read_bytes() for file in files)
    text, code = compile_profile(request, candidates, policy, search=options.search)
    sys.stdout.write(text)
    return code


def _lint(options: argparse.Namespace) -> int:
    from deuz_proxy.lint import lint_file

    summary = lint_file(options.file, print, is_json=options.is_json)
    if summary.requests or not summary.skipped:
        return 0
    words = f"{options.file}: no line is a request body; each has to be a whole one"
    return _refuse(words, of="lint")


def _provider(options: argparse.Namespace) -> int:
    from deuz_proxy.config.values import split_address
    from deuz_proxy.demo.provider import run_provider
    from deuz_proxy.edge.listening import listen_failed

    serving = run_provider(
        *split_address(options.listen),
        announce=_tell_provider,
        window_tokens=options.window,
        require_key=options.require_key,
    )
    try:
        _loop(serving)
    except OSError as fault:
        raise listen_failed(fault, name="listen", address=options.listen) from fault
    return 0


def _loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    import uvloop

    return uvloop.run(coroutine)


def _tell_provider(url: str) -> None:
    say_if_heard(f"fake provider listens on {url}")
    say_if_heard(
        "a config that sends everything there, for deuz-sidecar run --config FILE:"
    )
    say_if_heard(
        "upstreams:\n"
        f'  anthropic: {{url: "{url}", wire: anthropic}}\n'
        f'  openai: {{url: "{url}", wire: openai}}'
    )


def _refuse(text: str, *, of: str = "") -> int:
    print(f"deuz-sidecar{of and ' '}{of}: {text}", file=sys.stderr)
    return EXIT_MISTAKE


def _start_words(fault: Exception) -> str:
    if isinstance(fault, ListenFailed):
        return f"{fault}; choose another with --{fault.name} H:P (port 0: any free one)"
    return _file_words(fault) if isinstance(fault, OSError) else str(fault)


def _file_words(fault: OSError) -> str:
    reason = fault.strerror or str(fault)
    if fault.filename is None:
        drop_output()
        return output_words(fault) or reason
    return f"{fault.filename}: cannot be read: {reason.lower()}"
