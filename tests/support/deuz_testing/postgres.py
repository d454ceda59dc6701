"""A real PostgreSQL server of its own, for as long as the tests of a module run."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deuz_testing.ports import free_port

PASSWORD = "canary-password"


@contextlib.contextmanager
def running_postgres() -> Iterator[str]:
    """Start a server on a free port; give the URL of its database."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    home = Path(tempfile.mkdtemp(prefix="deuz-postgres-"))
    # PostgreSQL refuses to run as root.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    prefix = user if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(home, "postgres", "postgres")
    (home / "password").write_text(PASSWORD)
    (home / "password").chmod(0o644)
    data, port = home / "data", free_port()
    made = [programs / "initdb", "-D", data, "-U", "deuz", "-A", "scram-sha-256"]
    made += ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", f"--pwfile={home}/password"]
    options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off"
    control = [*prefix, programs / "pg_ctl", "-D", data, "-w", "-l", home / "log"]
    try:
        _run([*prefix, *made])
        _run([*control, "-o", options, "start"])
        try:
            yield f"postgres://deuz:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(command: list[object]) -> None:
    ended = subprocess.run(
        [str(each) for each in command],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd="/",
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr.decode()
