"""What is measured: how each subject is started in front of the same upstream.

Rules:
- A subject is one process tree that listens on the port it is given.
- `direct` is no process: the load goes to the upstream itself.
- Sources have time to answer: one that is late at a full load rests, and what is
  measured is a sidecar that does not search.
- A folder is looked at by the clock. Where instructions are counted of what follows a
  search, records that stand in the config take its place.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench import bodies

NGINX_CONFIG = """\
daemon off; master_process off; worker_processes 1;
error_log stderr error; pid {folder}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_max_body_size 64m; client_body_buffer_size 2m;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream provider {{
    server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 1000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=1024;
    location / {{
      proxy_pass http://provider; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""

SIDECAR_CONFIG = """\
listen: 127.0.0.1:{port}
admin: {{listen: 127.0.0.1:{admin}}}
upstreams:
  bench: {{url: "http://127.0.0.1:{upstream}", wire: openai}}
routes:
  - {{path: /v1/chat/completions, upstream: bench, mode: {mode}}}
models:
  bench: {{context_window: 4000000, max_output_tokens: 8000}}
context:
  budget: {{max_tokens: 320}}
  refresh: {{max_passes: 1000, deadline_ms: 5000}}
  sources: [{source}]
telemetry: {{otlp: {{endpoint: "http://127.0.0.1:{upstream}"}}}}
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where a subject listens and what it forwards to."""

    own: int
    admin: int
    upstream: int


@dataclass(frozen=True, slots=True)
class Subject:
    """Something to measure: its name and the command that starts it in a folder."""

    name: str
    command: Callable[[Path, Ports], list[str]]


def make_nginx(folder: Path, ports: Ports) -> list[str]:
    """Return the command of nginx as an unbuffered reverse proxy with one worker."""
    config = folder / "nginx.conf"
    config.write_text(
        NGINX_CONFIG.format(folder=folder, port=ports.own, upstream=ports.upstream)
    )
    return ["nginx", "-p", str(folder), "-c", str(config), "-e", "stderr"]


def make_floor(_folder: Path, ports: Ports) -> list[str]:
    """Return the command of our plain aiohttp pass-through."""
    module = [sys.executable, "-m", "tests.bench.floor"]
    return [*module, str(ports.own), str(ports.upstream)]


def make_observe(folder: Path, ports: Ports) -> list[str]:
    """Return the command of the sidecar that only watches, telemetry exported."""
    return _make_sidecar(folder, ports, mode="observe")


def make_compile(folder: Path, ports: Ports) -> list[str]:
    """Return the command of the sidecar that searches and places on each user turn."""
    return _make_sidecar(folder, ports, mode="compile")


def make_compile_unclocked(folder: Path, ports: Ports) -> list[str]:
    """Return the command of the sidecar that places one record on each user turn."""
    texts = bodies.make_documents(bodies.PLACED_STEPS)
    records = [{"id": f"note-{at}", "text": text} for at, text in enumerate(texts)]
    # Any JSON is YAML.
    source = {"id": "notes", "kind": "rag", "type": "static", "records": records}
    return _make_sidecar(folder, ports, mode="compile", source=json.dumps(source))


SUBJECTS = (
    Subject("nginx", make_nginx),
    Subject("aio-floor", make_floor),
    Subject("observe", make_observe),
    Subject("compile", make_compile),
)


def list_available() -> tuple[Subject, ...]:
    """Return the subjects that can be started on this machine."""
    has_nginx = shutil.which("nginx") is not None
    return tuple(item for item in SUBJECTS if has_nginx or item.name != "nginx")


def build_native(folder: Path) -> None:
    """Compile the upstream and the load generator into the folder."""
    source = Path(__file__).parent / "native"
    for name in ("upstream", "load"):
        command = ["gcc", "-O2", "-o", str(folder / name), str(source / f"{name}.c")]
        subprocess.run(command, check=True)


def _make_sidecar(
    folder: Path, ports: Ports, *, mode: str, source: str | None = None
) -> list[str]:
    config = folder / "deuz.yaml"
    config.write_text(
        SIDECAR_CONFIG.format(
            port=ports.own,
            admin=ports.admin,
            upstream=ports.upstream,
            mode=mode,
            source=source or _make_notes(folder),
        )
    )
    return [sys.executable, "-m", "deuz_proxy", "run", "--config", str(config)]


def _make_notes(folder: Path) -> str:
    """Write notes to search in, and return the source that does."""
    notes = folder / "notes"
    notes.mkdir()
    for number, text in enumerate(bodies.make_documents(200)):
        (notes / f"{number:03}.md").write_text(text)
    return f'{{id: notes, kind: rag, type: files, path: "{notes}"}}'
