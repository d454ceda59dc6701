"""What can go wrong in the proxy, by stable code.

Rules:
- `code` is public: the same word stands in the answer, the log and the metric label.
- Messages hold numbers and names, never content of a request or a credential.
"""

from collections.abc import Mapping
from typing import ClassVar


class SidecarError(Exception):
    """Base of all errors the proxy raises. `status` is what the client would see."""

    code = "sidecar_fault"
    status = 500


class BodyTooLarge(SidecarError):
    """The client sent more than the configured limit."""

    code = "body_too_large"
    status = 413

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(
            f"request body is over the limit of {limit_bytes} bytes"
            " (limits.max_body_bytes)"
        )
        self.limit_bytes = limit_bytes


class RequestMalformed(SidecarError):
    """The client's request is not HTTP, or its body's framing is broken."""

    code = "malformed_request"
    status = 400

    def __init__(self) -> None:
        super().__init__("the request is not valid HTTP")


class HeadTooLarge(SidecarError):
    """A request's head has more `bytes` or `lines` than the configured limit."""

    code = "head_too_large"
    status = 431

    def __init__(self, *, limit: int, unit: str) -> None:
        super().__init__(
            f"the request's head is over the limit of {limit} {unit}"
            f" (limits.max_head_{unit})"
        )
        self.limit = limit


class RequestTooSlow(SidecarError):
    """A request's `head` or `body` was begun, and did not come in time."""

    code = "request_too_slow"
    status = 408

    def __init__(self, part: str, limit_seconds: float) -> None:
        is_head = part == "head"
        what = "did not come whole within" if is_head else "stopped coming for"
        super().__init__(
            f"the request's {part} {what} {limit_seconds:g} seconds"
            f" (limits.{part}_seconds)"
        )
        self.limit_seconds = limit_seconds


class TooManyConnections(SidecarError):
    """More clients are connected than the configured limit allows."""

    code = "too_many_connections"
    status = 503

    def __init__(self, *, limit: int) -> None:
        super().__init__(f"more than {limit} connections (limits.max_connections)")
        self.limit = limit


class UpstreamUnreachable(SidecarError):
    """No connection to the upstream could be made; no request byte was sent.

    `kind` is one of `KINDS`, or None where it is not known.
    """

    code = "upstream_unreachable"
    status = 502
    KINDS: ClassVar[Mapping[str, str]] = {
        "refused": "connection refused",
        "dns": "name not found",
        "tls": "TLS handshake failed",
        "timeout": "no connection within limits.connect_seconds",
        "proxy": "no way through the environment's proxy",
        "network": "network error",
    }

    def __init__(self, *, upstream: str, kind: str | None = None) -> None:
        why = f": {self.KINDS[kind]}" if kind else ""
        super().__init__(f"upstream {upstream} cannot be reached{why}")
        self.upstream = upstream
        self.kind = kind


class UpstreamBroken(SidecarError):
    """The upstream went away before it answered, or said nothing for too long."""

    code = "upstream_broken"
    status = 502

    def __init__(self, *, upstream: str, silent_seconds: float | None = None) -> None:
        what = (
            "closed the connection before answering"
            if silent_seconds is None
            else f"was silent for {silent_seconds:g} seconds"
            " (limits.stream_idle_seconds)"
        )
        super().__init__(f"upstream {upstream} {what}")
        self.upstream = upstream


class UnknownUpstream(SidecarError):
    """The path names an upstream that is not configured, or leads to none.

    `is_admin` tells that the path is one that the admin address answers.
    """

    code = "unknown_upstream"
    status = 404

    def __init__(self, *, upstream: str | None, is_admin: bool = False) -> None:
        super().__init__(_unknown_words(upstream, is_admin=is_admin))
        self.upstream = upstream


def _unknown_words(upstream: str | None, *, is_admin: bool) -> str:
    if upstream is not None:
        return f"no upstream is configured as {upstream}"
    if is_admin:
        return "no upstream for this path: it belongs to the admin address"
    return (
        "no upstream for this path: known are /v1/…, /v1beta/…, /api/…, /@NAME/… "
        "and routes that name an upstream"
    )


class ContextRefused(SidecarError):
    """Context could not be added and the route is set to fail closed."""

    code = "context_refused"
    status = 503

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"context could not be added: {reason}")
        self.reason = reason


class ListenFailed(SidecarError):
    """An address cannot be listened on. `name` is `listen` or `admin`."""

    code = "listen_failed"

    def __init__(self, *, name: str, address: str, reason: str) -> None:
        words = "admin address" if name == "admin" else "address"
        super().__init__(f"{words} {address} cannot be listened on: {reason}")
        self.name = name
        self.address = address


class WorkerFailed(SidecarError):
    """A worker process could not begin, or not take a new config."""

    code = "worker_failed"

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"a worker failed: {reason}")
        self.reason = reason


class ConfigInvalid(SidecarError):
    """A configuration has mistakes; all of them are listed, one line each."""

    code = "config_invalid"

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class StoreFailed(SidecarError):
    """A store did not answer, or not in time."""

    code = "store_failed"

    def __init__(self, *, store: str, operation: str) -> None:
        super().__init__(f"store {store} failed at {operation}")
        self.store = store
        self.operation = operation


class SourceFailed(SidecarError):
    """A source answered wrongly or not at all; `reason` is one of `REASONS`."""

    code = "source_failed"
    NOT_READY: ClassVar[str] = "not_ready"
    REASONS: ClassVar[Mapping[str, str]] = {
        "unreachable": "no connection",
        "tls": "no TLS connection",
        "broken": "the connection ended before the answer did",
        "status": "an answer that is no success",
        "redirect": "an answer that leads elsewhere",
        "encoding": "an answer that is compressed",
        "not_json": "an answer that is not JSON",
        "wrong_shape": "an answer of another shape",
        "too_large": "an answer over the limit",
        "no_record": "no record that is well-formed",
        "tool": "an error of the tool",
        "protocol": "an answer against the protocol",
        "closed": "it is closed",
        NOT_READY: "it still reads what it will answer from",
    }

    def __init__(self, *, source: str, reason: str) -> None:
        super().__init__(f"source {source} failed: {self.REASONS[reason]}")
        self.source = source
        self.reason = reason


class StoreUnusable(SidecarError):
    """A store cannot be opened, or holds what this version does not read."""

    code = "store_unusable"

    def __init__(self, *, store: str, reason: str) -> None:
        super().__init__(f"store {store} cannot be used: {reason}")
        self.store = store
        self.reason = reason
