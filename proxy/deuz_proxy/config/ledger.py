"""Where placements and folds are kept: the section `ledger`, and what its URL means.

Rules:
- A URL may hold a password: it is shown by `shown_url` and in no other form.
- A relative file starts at the config file's folder; an absolute one has four slashes.
"""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator

from deuz_proxy.config.section import Section
from deuz_proxy.config.values import path_below

MEMORY = "memory://"
_SQLITE = "sqlite:///"
_OVER_TLS = ("rediss", "valkeys")
_REDIS = ("redis", "valkey", *_OVER_TLS)
_ALLOWED = "allowed: memory://, sqlite:///FILE, redis://HOST:PORT/DATABASE"
_LAST_DATABASE = 1_000_000


class LedgerConfig(Section):
    """Where placements and folds are kept."""

    url: str = Field(
        default=MEMORY,
        repr=False,
        description="`memory://`: in this process; `sqlite:///FILE`: in a file; "
        "`redis://`, `rediss://`, `valkey://`, `valkeys://`: in a server.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that those of a `rediss://` or `valkeys://` "
        "server are checked against; default: the system's.",
    )
    max_entries: int = Field(
        default=100_000, ge=1, description="Places kept; the least recently used go."
    )
    max_bytes: int = Field(
        default=268_435_456, ge=1, description="Bytes kept, with the same rule."
    )
    ttl_seconds: float = Field(
        default=86_400,
        gt=0,
        allow_inf_nan=False,
        description="How long an unused place is kept.",
    )
    deadline_ms: int = Field(
        default=250,
        ge=1,
        le=10_000,
        description="Longest wait for a file or server; then it goes on without.",
    )

    @field_validator("url")
    @classmethod
    def _supported(cls, url: str, info: ValidationInfo) -> str:
        fault = url_fault(url)
        if fault is not None:
            raise ValueError(fault)
        file = file_of(url)
        folder = Path((info.context or {}).get("folder", Path()))
        return url if file is None else f"{_SQLITE}{path_below(folder, file)}"

    @field_validator("ca_file")
    @classmethod
    def _resolve(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        folder = (info.context or {}).get("folder", Path())
        return None if path is None else path_below(folder, path)


def url_fault(url: str) -> str | None:
    """Return what is wrong with a URL, without repeating it; None if nothing is."""
    scheme = url.partition(":")[0]
    if url == MEMORY:
        return None
    if scheme == "memory":
        return "is more than memory:// (allowed: just that)"
    if scheme == "sqlite":
        return _file_fault(url)
    if scheme in _REDIS:
        return _server_fault(url)
    return f"is not a ledger ({_ALLOWED})"


def file_of(url: str) -> Path | None:
    """Return the file that a SQLite URL names; None for any other URL."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def shown_url(url: str) -> str:
    """Return the URL without its password."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}:…{at}{host}").geturl()


def is_server(url: str) -> bool:
    """Tell whether the URL names a Redis or Valkey server."""
    return url.partition(":")[0] in _REDIS


def is_tls(url: str) -> bool:
    """Tell whether the URL names a server that is reached over TLS."""
    return url.partition(":")[0] in _OVER_TLS


def _server_fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "has no port that is a number (allowed: redis://HOST:PORT/DATABASE)"
    if not url.startswith(f"{parts.scheme}://") or not host:
        return "names no host (allowed: redis://HOST:PORT/DATABASE)"
    if parts.query or parts.fragment:
        return "has options behind the database's number (allowed: none)"
    database = parts.path.removeprefix("/")
    if database and not (database.isdecimal() and int(database) < _LAST_DATABASE):
        return "names a database that is no number (allowed: redis://HOST:PORT/0)"
    return None


def _file_fault(url: str) -> str | None:
    name = url.removeprefix(_SQLITE)
    if not url.startswith(_SQLITE) or not name or name.endswith("/"):
        return (
            "names no file (allowed: sqlite:///FILE, "
            "for an absolute path sqlite:////folder/FILE)"
        )
    if name == ":memory:":
        return "is a database without a file (allowed: memory://)"
    if "?" in name or "#" in name or "\0" in name:
        return "has options behind the file's name (allowed: none)"
    return None
