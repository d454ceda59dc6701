"""What can go wrong in the proxy, by stable code.

Rules:
- `code` is public: the same word stands in the answer, the log and the metric label.
- Messages hold numbers and names, never content of a request or a credential.
"""


class SidecarError(Exception):
    """Base of all errors the proxy raises. `status` is what the client would see."""

    code = "sidecar_fault"
    status = 500


class BodyTooLarge(SidecarError):
    """The client sent more than the configured limit."""

    code = "body_too_large"
    status = 413

    def __init__(self, *, limit_bytes: int) -> None:
        super().__init__(f"request body is over the limit of {limit_bytes} bytes")
        self.limit_bytes = limit_bytes


class RequestMalformed(SidecarError):
    """The client's request is not HTTP, or its body's framing is broken."""

    code = "malformed_request"
    status = 400

    def __init__(self) -> None:
        super().__init__("the request is not valid HTTP")


class UpstreamUnreachable(SidecarError):
    """No connection to the upstream could be made; no request byte was sent."""

    code = "upstream_unreachable"
    status = 502

    def __init__(self, *, upstream: str) -> None:
        super().__init__(f"upstream {upstream} cannot be reached")
        self.upstream = upstream


class UpstreamBroken(SidecarError):
    """The upstream went away before it answered."""

    code = "upstream_broken"
    status = 502

    def __init__(self, *, upstream: str) -> None:
        super().__init__(f"upstream {upstream} closed the connection before answering")
        self.upstream = upstream


class UnknownUpstream(SidecarError):
    """The path names an upstream that is not configured."""

    code = "unknown_upstream"
    status = 404

    def __init__(self, *, upstream: str) -> None:
        super().__init__(f"no upstream is configured as {upstream}")
        self.upstream = upstream


class ContextRefused(SidecarError):
    """Context could not be added and the route is set to fail closed."""

    code = "context_refused"
    status = 503

    def __init__(self, *, reason: str) -> None:
        super().__init__(f"context could not be added: {reason}")
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
