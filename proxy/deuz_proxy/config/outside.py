"""Sources outside this process: what they are called by, and how much they may answer.

Rules:
- What may hold a credential is a `SecretStr`.
- A bound on an answer is a bound on what is read, not on what is kept of it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from deuz_proxy.config.section import Kind, Section, id_from_kind
from deuz_proxy.config.values import HeaderName, Name, Url, path_below

# Written by the client itself; a second value would make two requests of one.
_OWN_HEADERS = (
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
)
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
# 20 records of 64 KiB each; what is longer is no answer to a question.
_ANSWER_BYTES = 1_048_576


def check_headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """Return the headers if each can be sent as it is.

    Raises:
        ValueError: one is the client's own, or holds what no header may hold.
    """
    for name, value in headers.items():
        if name in _OWN_HEADERS:
            raise ValueError(f"sets {name}, which the sidecar writes itself")
        if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError(f"has a value for {name} that no header can hold")
    return headers


class HttpSource(Section):
    """A service of yours that is asked over HTTP."""

    type: Literal["http"] = Field(description="`http`.")
    kind: Kind = Field(default="rag", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    url: Url = Field(description="Where the question is posted to.")
    headers: Mapping[HeaderName, SecretStr] = Field(
        default_factory=dict, description="Headers sent along, for credentials."
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that the service's is checked against; "
        "default: the system's.",
    )
    max_answer_bytes: int = Field(
        default=_ANSWER_BYTES,
        ge=1024,
        le=67_108_864,
        description="Longest answer that is read; a longer one is a failure.",
    )

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        return check_headers(headers)

    @field_validator("ca_file")
    @classmethod
    def _resolve(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        folder = (info.context or {}).get("folder", Path())
        return None if path is None else path_below(folder, path)


class Fields(Section):
    """Which members of a tool's result are a record's; "" where it has no such."""

    id: str = Field(default="id", max_length=64, description="Names the record.")
    text: str = Field(default="text", max_length=64, description="The text itself.")
    score: str = Field(default="score", max_length=64, description="0 to 1.")
    revision: str = Field(default="revision", max_length=64, description="Version.")
    expires_at: str = Field(
        default="expires_at", max_length=64, description="Unix seconds."
    )
    origin: str = Field(
        default="url", max_length=64, description="Where the text comes from."
    )


class McpSource(Section):
    """A server of the Model Context Protocol: a search tool of it, or its resources."""

    type: Literal["mcp"] = Field(description="`mcp`.")
    kind: Kind = Field(default="rag", description="Which budget share it draws on.")
    id: Name = Field(
        default_factory=id_from_kind, description="Name of the source; default: kind."
    )
    required: bool = Field(
        default=False, description="Whether context is refused when the source fails."
    )
    command: tuple[str, ...] = Field(
        default=(),
        max_length=64,
        description="Program and arguments of a server that is spoken to by stdio.",
    )
    env: Mapping[str, SecretStr] = Field(
        default_factory=dict,
        description="Variables of the program, beside PATH, HOME, USER and the like.",
    )
    url: Url | None = Field(
        default=None, description="Address of a server that speaks streamable HTTP."
    )
    headers: Mapping[HeaderName, SecretStr] = Field(
        default_factory=dict, description="Headers sent to the address."
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that the server's is checked against.",
    )
    tool: str | None = Field(
        default=None, max_length=128, description="Name of the tool that searches."
    )
    query_argument: str = Field(
        default="query", max_length=64, description="Its argument for the question."
    )
    limit_argument: str | None = Field(
        default=None, max_length=64, description="Its argument for how many records."
    )
    scope_argument: str | None = Field(
        default=None, max_length=64, description="Its argument for whose records."
    )
    arguments: Mapping[str, str] = Field(
        default_factory=dict,
        description="Fixed arguments; values are read as JSON where they are JSON.",
    )
    records: str | None = Field(
        default=None,
        max_length=64,
        description="Member of the result that lists records; default: its only list.",
    )
    fields: Fields = Field(
        default=Fields(), description="Names of a record's members in the result."
    )
    resources: bool = Field(
        default=False, description="Search in the server's resources, not by a tool."
    )
    refresh_seconds: float = Field(
        default=300.0,
        ge=1,
        le=86_400,
        allow_inf_nan=False,
        description="Age at which the resources are read again.",
    )
    max_answer_bytes: int = Field(
        default=_ANSWER_BYTES,
        ge=1024,
        le=67_108_864,
        description="Longest message that is read; a longer one ends the session.",
    )

    @field_validator("headers")
    @classmethod
    def _sendable(cls, headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
        return check_headers(headers)

    @field_validator("ca_file")
    @classmethod
    def _resolve(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        folder = (info.context or {}).get("folder", Path())
        return None if path is None else path_below(folder, path)

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if bool(self.command) == (self.url is not None):
            raise ValueError("needs a command or a url (allowed: exactly one)")
        if self.resources == (self.tool is not None):
            raise ValueError("needs a tool or resources: true (allowed: exactly one)")
        return self
