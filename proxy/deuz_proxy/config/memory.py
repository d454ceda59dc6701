"""Where memory records and working memory are kept, and how records are offered.

Rules:
- A relative file starts at the config file's folder.
- The URL may hold a password, so it is a secret as a whole.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from deuz_proxy.config.section import Kind, Section, id_from_kind
from deuz_proxy.config.values import KeyDigest, Name, Ratio, path_below

SCOPE_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?:/[A-Za-z0-9._@:+-]{1,128})?"
IN_PROCESS = "memory://"
SQLITE = "sqlite:///"
POSTGRES = ("postgres", "postgresql")
BESIDE_LEDGER = "memory.db"
_ALLOWED = "allowed: memory://, sqlite:///FILE, postgres://USER:PASSWORD@HOST/DATABASE"


class StoreSource(Section):
    """Memory records of the request's scope, written over the admin API or MCP."""

    type: Literal["store"] = Field(description="`store`.")
    kind: Kind = Field(default="memory", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    min_score: Ratio = Field(
        # Below, records share a common word with the question, or parts of words.
        default=Decimal("0.2"),
        description="Records below this score, 0 to 1, are not offered.",
    )


class Grant(Section):
    """A token for an agent: it may use the memory's tools, in one scope."""

    key: KeyDigest = Field(description="SHA-256 of the token.")
    scope: str = Field(
        max_length=193, description="The scope it may use: `tenant` or `tenant/name`."
    )

    @field_validator("scope")
    @classmethod
    def _is_scope(cls, scope: str) -> str:
        if not re.fullmatch(SCOPE_PATTERN, scope):
            raise ValueError("is not a scope (allowed: tenant, tenant/name)")
        return scope


class MemoryConfig(Section):
    """The store of memory records and working memory."""

    url: SecretStr | None = Field(
        default=None,
        description="`memory://`, `sqlite:///FILE` or `postgres://…`; default: "
        "`memory.db` beside a ledger that is a file, else in this process.",
    )

    grants: Mapping[Name, Grant] = Field(
        default_factory=dict, description="Agents that may use the tools at `/mcp`."
    )

    @field_validator("url")
    @classmethod
    def _supported(cls, url: SecretStr | None, info: ValidationInfo) -> object:
        folder = Path((info.context or {}).get("folder", Path()))
        if not url:
            # As `${VAR:-}` is where the variable is missing.
            return None
        return SecretStr(_checked(url.get_secret_value(), folder))


def memory_url(config: MemoryConfig, ledger_url: str) -> str:
    """Return where memory is kept under a config: what it says, or the default."""
    if config.url is not None:
        return config.url.get_secret_value()
    if ledger_url.startswith(SQLITE):
        file = PurePosixPath(ledger_url.removeprefix(SQLITE))
        return f"{SQLITE}{file.with_name(BESIDE_LEDGER)}"
    return IN_PROCESS


def _checked(url: str, folder: Path) -> str:
    if url == IN_PROCESS:
        return url
    if url.startswith(SQLITE) and (file := url.removeprefix(SQLITE)):
        return f"{SQLITE}{path_below(folder, Path(file))}"
    try:
        parts = urlsplit(url)
        is_database = parts.scheme in POSTGRES and bool(parts.hostname)
        # A port that is no number is told where it is asked for.
        is_whole = is_database and parts.port != 0 and bool(parts.path.strip("/"))
    except ValueError:
        is_whole = False
    if not is_whole:
        raise ValueError(f"is not a memory store ({_ALLOWED})")
    return url
