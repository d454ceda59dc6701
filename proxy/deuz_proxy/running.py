"""Running a sidecar as a process: signals, reloads, and a child command.

Rules:
- SIGTERM and SIGINT drain; a second one ends at once. SIGHUP or a changed file reloads.
- A command run behind the sidecar gets the base-URL variables of the common SDKs; what
  was set already for another provider stays.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from deuz_compiler import load_scanner
from deuz_proxy.app import App, Settings, running_app
from deuz_proxy.config.file import ConfigFile
from deuz_proxy.edge.proxies import proxies_of
from deuz_proxy.errors import ConfigInvalid, SidecarError
from deuz_proxy.observe.events import FaultCaught
from deuz_proxy.observe.vocabulary import OTHER
from deuz_proxy.tuning import tune_process

if TYPE_CHECKING:
    from deuz_proxy.keeper import Keeper

__all__ = ["Settings", "base_urls", "run_command", "run_until_stopped"]

_LOOK_SECONDS = 1.0
# As shells say it.
_NOT_EXECUTABLE = 126
_NOT_FOUND = 127
_SIGNALLED = 128
_MOST_SHOWN = 200
_NO_SCANNER = (
    "the scanner was not built: long histories that are new cost several times as much,"
    " spans thrice; install again where there are a C compiler and Python's headers"
)

Tell = Callable[[str], None]


async def run_until_stopped(
    settings: Settings, environ: Mapping[str, str], tell: Tell
) -> None:
    """Run until told to stop; `tell` gets the addresses once both answer.

    Raises:
        ConfigInvalid: the config has mistakes.
        StoreUnusable: a store cannot be opened.
        ListenFailed: an address cannot be listened on.
    """
    loop = asyncio.get_running_loop()
    stop, look = asyncio.Event(), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    loop.add_signal_handler(signal.SIGHUP, look.set)
    # Looked at before it is read: what is changed while we start is a change.
    file = ConfigFile(settings.config_path) if settings.config_path else None
    async with _running(settings, environ) as app:
        tune_process()
        tell(f"deuz-sidecar listens on {app.addresses.listen}")
        tell(f"admin page and metrics on {app.addresses.admin}")
        if load_scanner() is None:
            tell(_NO_SCANNER)
        _tell_proxies(app, environ, tell)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch_config(app, file, environ, look, tell))
            await stop.wait()
            # Whoever does not want to wait for the drain asks once more.
            for name in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(name)
            watching.cancel()


def _running(
    settings: Settings, environ: Mapping[str, str]
) -> "AbstractAsyncContextManager[App | Keeper]":
    if settings.workers == 1:
        return running_app(settings, environ)
    # Only who wants several processes pays for what keeps them.
    from deuz_proxy.keeper import running_keeper  # noqa: PLC0415

    return running_keeper(settings, environ)


async def run_command(
    argv: Sequence[str],
    settings: Settings,
    environ: Mapping[str, str],
    tell: Tell,
) -> int:
    """Run a command behind a sidecar of its own and return the command's exit code.

    `tell` gets the page's address, and why the command could not be started.
    """
    async with running_app(settings, environ) as app:
        tell(f"deuz-sidecar exec: admin page and metrics on {app.addresses.admin}")
        _tell_proxies(app, environ, tell, of="deuz-sidecar exec: ")
        child_environ = {**environ, **base_urls(app.addresses.listen)}
        try:
            process = await asyncio.create_subprocess_exec(*argv, env=child_environ)
        except OSError as fault:
            words, code = _not_run(argv[0], fault)
            tell(f"deuz-sidecar exec: {argv[0][:_MOST_SHOWN]}: {words}")
            return code
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(name, _pass_on, process, name)
        code = await process.wait()
        return code if code >= 0 else _SIGNALLED - code


def _tell_proxies(
    app: "App | Keeper", environ: Mapping[str, str], tell: Tell, *, of: str = ""
) -> None:
    """Say at once what would else show with the first request, and not why."""
    for words in proxies_of(app.config.proxy, environ).complaints():
        tell(f"{of}{words}")


def _not_run(program: str, fault: OSError) -> tuple[str, int]:
    """Return why a program could not be started, and the shells' code for it."""
    if isinstance(fault, FileNotFoundError):
        if os.path.exists(program):  # What it names may be no path.
            return "what its first line names is not there", _NOT_EXECUTABLE
        return "command not found", _NOT_FOUND
    if isinstance(fault, PermissionError):
        return "not a program that may be run", _NOT_EXECUTABLE
    return (fault.strerror or "cannot be run").lower(), _NOT_EXECUTABLE


def base_urls(listen: str) -> dict[str, str]:
    """Return the variables that make the common SDKs and agents use this address.

    `DEUZ_SIDECAR_URL` is the address itself, for a client that needs another form.
    """
    # Google's Python SDK asks for /v1/models/…, as OpenAI's does: the name leads it.
    gemini = f"{listen}/@gemini"
    return {
        "DEUZ_SIDECAR_URL": listen,
        "OPENAI_BASE_URL": f"{listen}/v1",
        "OPENAI_API_BASE": f"{listen}/v1",
        "ANTHROPIC_BASE_URL": listen,
        # Where these are set, LiteLLM and LangChain prefer them to the one above.
        "ANTHROPIC_API_BASE": listen,
        "ANTHROPIC_API_URL": listen,
        "GOOGLE_GEMINI_BASE_URL": gemini,
        "GEMINI_API_BASE": f"{gemini}/v1beta",
        "OLLAMA_HOST": listen,
        "OLLAMA_API_BASE": listen,
    }


def _pass_on(process: asyncio.subprocess.Process, name: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(name)


async def _watch_config(
    app: "App | Keeper",
    file: ConfigFile | None,
    environ: Mapping[str, str],
    look: asyncio.Event,
    tell: Tell,
) -> None:
    if file is None:
        return
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(look.wait(), _LOOK_SECONDS)
        is_asked = look.is_set()
        look.clear()
        if not file.has_changed() and not is_asked:
            continue
        try:
            await app.reload(file.load(environ))
        except ConfigInvalid as fault:
            tell(f"config not taken, the running one stays in force:\n{fault}")
        except Exception as fault:  # noqa: BLE001  # A reload must not end what runs.
            app.notice(FaultCaught(OTHER, "reload", SidecarError.code))
            # Words of others may hold content.
            is_ours = isinstance(fault, SidecarError)
            tell(f"config reload failed: {fault if is_ours else type(fault).__name__}")
        else:
            tell("config taken")
