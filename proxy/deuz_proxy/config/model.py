"""The whole config as typed values with their defaults; every field says what it does.

Rules:
- Built-in upstreams are always there; a configured one of the same name replaces it.
- Secrets are `SecretStr`; `redacted` is the only form that leaves the process.
- Checks that need two fields at once are in `checks`, so that all are told at once.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from deuz_proxy.config.context import Context
from deuz_proxy.config.ledger import LedgerConfig, shown_url
from deuz_proxy.config.memory import MemoryConfig
from deuz_proxy.config.section import Section
from deuz_proxy.config.values import (
    Address,
    HeaderName,
    KeyDigest,
    Name,
    PathRule,
    Ratio,
    Url,
)

Mode = Literal["off", "observe", "shadow", "compile"]
OnError = Literal["open", "closed"]
Layer = Literal["prune-tool-results", "prune-reasoning", "summarize"]
UpstreamWire = Literal["auto", "anthropic", "openai", "gemini", "ollama", "bedrock"]


class Admin(Section):
    """The second address: health, metrics, live page, API."""

    listen: Address = Field(
        default="127.0.0.1:4142", description="Address of the admin server."
    )
    token: SecretStr | None = Field(
        default=None,
        description="Bearer token for the admin server; default: DEUZ_ADMIN_TOKEN.",
    )

    @field_validator("token")
    @classmethod
    def _empty_is_none(cls, token: SecretStr | None) -> SecretStr | None:
        return token if token and token.get_secret_value() else None


class Upstream(Section):
    """A provider or server that requests are forwarded to."""

    url: Url = Field(description="Base URL; the request's path is appended.")
    wire: UpstreamWire = Field(
        default="auto", description="Which API it speaks; `auto` tells by path."
    )
    placement: Literal["turn", "part"] = Field(
        default="turn",
        description="Added context as an own user turn, or as a part of the user's.",
    )


BUILT_IN_UPSTREAMS: Mapping[str, Upstream] = {
    "anthropic": Upstream(url="https://api.anthropic.com", wire="anthropic"),
    "openai": Upstream(url="https://api.openai.com", wire="openai"),
    # Gemini has demanded strictly alternating turns, chat templates of local models do.
    "gemini": Upstream(
        url="https://generativelanguage.googleapis.com", wire="gemini", placement="part"
    ),
    "ollama": Upstream(url="http://127.0.0.1:11434", wire="ollama", placement="part"),
}


class Route(Section):
    """What happens to requests of one path; the first rule that fits wins."""

    path: PathRule = Field(
        description="Path below the upstream, exact, or a prefix with * at its end."
    )
    upstream: Name | None = Field(
        default=None,
        description="Where they go; without it, where path or prefix say.",
    )
    mode: Mode = Field(default="observe", description="What the sidecar may do.")
    on_error: OnError | None = Field(
        default=None, description="Overrides the global `on_error` here."
    )
    name: Name | None = Field(
        default=None, description="Label in metrics; default: the path."
    )

    @property
    def label(self) -> str:
        """The route's name in metrics and events."""
        return self.name or self.path


class Tenant(Section):
    """A set of credentials that share one pool of context."""

    keys: tuple[KeyDigest, ...] = Field(
        max_length=10_000,
        description="SHA-256 of each credential, without a `Bearer` in front.",
    )

    @field_validator("keys")
    @classmethod
    def _not_empty(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        if not keys:
            raise ValueError("is empty (allowed: one key or more)")
        return keys


class Scope(Section):
    """How a request narrows its tenant's scope."""

    headers: tuple[HeaderName, ...] = Field(
        default=("x-deuz-scope",),
        max_length=8,
        description="Headers whose value narrows the scope to `tenant/value`.",
    )
    required: bool = Field(
        default=False, description="Without such a header, no context is added."
    )


class Summarize(Section):
    """The call that folds old turns into a summary."""

    model: str | None = Field(
        default=None, description="Model for the summary; default: the request's own."
    )


class Overflow(Section):
    """What happens when a conversation outgrows the model's window."""

    recover: bool = Field(
        default=True, description="Shorten and send once more, before a byte went out."
    )
    compact_at: Ratio | None = Field(
        default=None,
        gt=0,
        description="Share of the window from which a history is shortened ahead.",
    )
    keep_recent_steps: int = Field(
        default=4, ge=1, le=1000, description="Newest steps that are never shortened."
    )
    layers: tuple[Layer, ...] = Field(
        default=("prune-tool-results", "prune-reasoning", "summarize"),
        description="Which ways of shortening are tried, in this order.",
    )
    summarize: Summarize = Field(default=Summarize(), description="The summary call.")

    @field_validator("layers")
    @classmethod
    def _each_once(cls, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        if len(dict.fromkeys(layers)) != len(layers):
            raise ValueError("names a layer twice")
        return layers


class ModelEntry(Section):
    """What is known of a model, over the built-in table."""

    context_window: int = Field(
        ge=1, le=100_000_000, description="Input and output tokens together."
    )
    max_output_tokens: int | None = Field(
        default=None, ge=1, le=100_000_000, description="Longest answer, in tokens."
    )
    binds_thinking: bool | None = Field(
        default=None,
        description="Whether replayed thinking is void when the prefix changes.",
    )


class Otlp(Section):
    """Export over OTLP; the usual OTEL_* variables are honoured too."""

    endpoint: Url | None = Field(
        default=None, description="Collector's URL; without it nothing is exported."
    )
    protocol: Literal["http/protobuf", "grpc"] = Field(
        default="http/protobuf", description="How to speak to the collector."
    )
    headers: Mapping[HeaderName, SecretStr] = Field(
        default_factory=dict, description="Headers sent to the collector."
    )


class Telemetry(Section):
    """What is told, and to whom."""

    otlp: Otlp = Field(default=Otlp(), description="Traces and metrics over OTLP.")
    content: bool = Field(
        default=False, description="Reserved: spans never hold prompts or answers."
    )
    propagate: bool = Field(
        default=False, description="Whether trace headers go to the upstream."
    )
    legacy_names: bool = Field(
        default=False,
        description="The older names of the GenAI conventions instead of the newest.",
    )

    @field_validator("content")
    @classmethod
    def _never(cls, is_told: bool) -> bool:  # noqa: FBT001  # pydantic's signature.
        if is_told:
            raise ValueError("is reserved: this version exports no content")
        return is_told


class Limits(Section):
    """Bounds that protect the sidecar itself."""

    max_body_bytes: int = Field(
        default=67_108_864,
        ge=1024,
        description="Longest request body that is read, and longest once decoded.",
    )
    max_connections: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Connections of clients at once, of one process.",
    )
    max_head_bytes: int = Field(
        default=262_144,
        ge=4096,
        le=16_777_216,
        description="Longest head of a request: its first line and header lines.",
    )
    max_head_lines: int = Field(
        default=512, ge=16, le=100_000, description="Most header lines of a request."
    )
    head_seconds: float = Field(
        default=60.0,
        gt=0,
        allow_inf_nan=False,
        description="Time for a request's head to come, from its first byte on.",
    )
    body_seconds: float = Field(
        default=300.0,
        gt=0,
        allow_inf_nan=False,
        description="Silence within a request's body after which it is refused.",
    )
    keep_alive_seconds: float = Field(
        # Above what clients' pools keep a connection for: they should close first.
        default=3600.0,
        gt=0,
        allow_inf_nan=False,
        description="How long a client's connection is kept between requests.",
    )
    connect_seconds: float = Field(
        default=10.0,
        gt=0,
        le=300,
        allow_inf_nan=False,
        description="Time to reach an upstream, TLS included.",
    )
    stream_idle_seconds: float = Field(
        # Thinking models stay silent for many minutes; only a dead peer takes an hour.
        default=3600.0,
        gt=0,
        allow_inf_nan=False,
        description="Silence of an upstream after which a call is ended.",
    )
    drain_seconds: float = Field(
        default=30.0,
        ge=0,
        le=3600,
        allow_inf_nan=False,
        description="Time that running streams get after SIGTERM.",
    )


class Config(Section):
    """Everything that can be set; the defaults only watch."""

    listen: Address = Field(
        default="127.0.0.1:4141", description="Address that applications talk to."
    )
    admin: Admin = Field(default=Admin(), description="The admin server.")
    upstreams: Mapping[Name, Upstream] = Field(
        default=BUILT_IN_UPSTREAMS,
        description="Where requests can go, by name; reached by path or as /@NAME/….",
    )
    proxy: Literal["environment", "none"] = Field(
        default="environment",
        description="Forward proxy to upstreams: as HTTP_PROXY and its like say; none.",
    )
    routes: tuple[Route, ...] = Field(
        default=(),
        max_length=256,
        description="Rules by path; first match wins, unmatched paths observe only.",
    )
    on_error: OnError = Field(
        default="open", description="At a fault of ours: forward as it came, or refuse."
    )
    tenants: Mapping[Name, Tenant] = Field(
        default_factory=dict,
        description="Credentials by tenant; none: all are tenant `default`.",
    )
    scope: Scope = Field(default=Scope(), description="Narrowing by header.")
    context: Context = Field(default=Context(), description="What may be added.")
    overflow: Overflow = Field(default=Overflow(), description="Outgrown windows.")
    ledger: LedgerConfig = Field(
        default=LedgerConfig(), description="Memory of what was placed."
    )
    memory: MemoryConfig = Field(
        default=MemoryConfig(), description="Memory records and working memory."
    )
    models: Mapping[str, ModelEntry] = Field(
        default_factory=dict, description="Model windows, over the built-in table."
    )
    telemetry: Telemetry = Field(default=Telemetry(), description="What is told.")
    limits: Limits = Field(default=Limits(), description="Bounds.")

    @field_validator("upstreams")
    @classmethod
    def _with_built_in(cls, given: Mapping[str, Upstream]) -> Mapping[str, Upstream]:
        return {**BUILT_IN_UPSTREAMS, **given}


def redacted(config: Config) -> dict[str, Any]:
    """Return the config as JSON values without secrets and without record texts."""
    shown: dict[str, Any] = config.model_dump(mode="json")
    shown["ledger"]["url"] = shown_url(config.ledger.url)
    for tenant in shown["tenants"].values():
        tenant["keys"] = [f"{key[:15]}…" for key in tenant["keys"]]
    for grant in shown["memory"]["grants"].values():
        grant["key"] = f"{grant['key'][:15]}…"
    for source in shown["context"]["sources"]:
        for record in source.get("records", ()):
            record["text"] = f"({len(record['text'])} characters)"
    return shown
