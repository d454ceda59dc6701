"""Starts the real sidecar, as a process of its own, for one test.

Rules:
- It listens on free ports and says which; nothing is guessed.
- Only the process that was started here is ended: asked first, then made to.
"""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

START_SECONDS = 60.0  # Several interpreters on a machine that others use as well.
STOP_SECONDS = 10.0
_ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)\s")  # The rest may be yet to come.


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar: where it answers, and the file with all that it printed."""

    url: str
    admin: str
    log: Path
    process: "subprocess.Popen[bytes]"


@contextlib.contextmanager
def running_sidecar(
    folder: Path,
    config: str,
    environ: Mapping[str, str] | None = None,
    *,
    workers: int = 1,
) -> Iterator[Sidecar]:
    """Run `deuz-sidecar run` with the config's text; `environ` replaces ours."""
    path, log = folder / "deuz.yaml", folder / "sidecar.log"
    path.write_text(config)
    command = [sys.executable, "-m", "deuz_proxy", "run", "--config", str(path)]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    command += ["--workers", str(workers)]
    with running_process(command, log, environ) as process:
        url, admin = wait_for_addresses(process, log)
        yield Sidecar(url, admin, log, process)


@contextlib.contextmanager
def running_process(
    command: list[str], log: Path, environ: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process for the life of the block, its output kept in a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environ,
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_addresses(
    process: "subprocess.Popen[bytes]", log: Path
) -> tuple[str, str]:
    """Return the two addresses that the sidecar prints when it is ready.

    Raises:
        RuntimeError: it ended, or said nothing in time; its output is in the message.
    """
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = _ADDRESS.findall(log.read_text())
        if len(found) >= 2:
            return found[0], found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the sidecar is not ready: {log.read_text()[-2000:]}")
