"""Where a request goes and what may be done to it: told from its head alone.

Rules:
- `/@NAME/rest` names its upstream; the rest is kept byte for byte, query included.
- A rule's path is compared with the path below the upstream, after any `/@NAME`.
- The first rule that fits wins; without one, the built-in paths say where it goes and
  the request is only observed.
- A credential must not reach a foreign provider: a path that two of them serve goes by
  the header that only one of them demands.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args
from urllib.parse import urlsplit

from deuz_proxy.config.endpoints import Api, Family, endpoint_at, family_at
from deuz_proxy.config.model import Config, Mode, OnError, Route
from deuz_proxy.errors import UnknownUpstream

Headers = Sequence[tuple[bytes, bytes]]

# What is not here goes to nobody without a rule. The first that fits wins.
_BUILT_IN_PATHS: tuple[tuple[str, str], ...] = (
    ("/v1/messages", "anthropic"),
    ("/v1", "openai"),
    ("/v1beta", "gemini"),
    ("/v1alpha", "gemini"),
    # The whole of /api: a client of Ollama asks for tags before it chats.
    ("/api", "ollama"),
    # Base URLs without /v1: what is called below them still tells whose client it is.
    ("/messages", "anthropic"),
    ("/chat/completions", "openai"),
    ("/responses", "openai"),
)
# What people and scrapers look for at the wrong one of the two addresses.
_ADMIN_PATHS = frozenset({"/metrics", "/healthz", "/readyz"})
# A probe of a base URL that has no path, as coding agents send it first: of the
# built-in providers' clients only this one's do; it carries no credential.
_PROBED = "anthropic"
_GOOGLE_METHOD = re.compile(
    r"/v1/(?:models|tunedModels)/[^/]+(?::|%3[Aa])[a-z]+(?:Content|Contents|Tokens)"
)
# Both serve /v1/models, /v1/files and more; this one demands its version each time.
_ANTHROPIC_HEADER = b"anthropic-version"
_MODES: tuple[Mode, ...] = get_args(Mode)
# What a client may ask for; whatever else it writes changes nothing.
_ASKED_MODES: Mapping[bytes, Mode] = {b"off": "off", b"observe": "observe"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes, and what may be done to it there.

    `path` is the raw path below the upstream's `url`, query included. `api` names the
    shape of the body, empty where it is not understood; `family` is the provider's.
    `is_compaction` says that the provider is to condense a history, not to answer.
    `model` and `is_streamed` are told only where they stand in the path.
    """

    upstream: str
    url: str
    path: str
    api: Api
    family: Family
    placement: Literal["turn", "part"]
    route: str
    mode: Mode
    on_error: OnError
    is_compaction: bool = False
    model: str = ""
    is_streamed: bool = False

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port of the upstream, for telemetry."""
        return _host_and_port(self.url)

    @property
    def is_closed_on_error(self) -> bool:
        """Whether a fault of ours refuses the request."""
        return self.on_error == "closed"


@lru_cache(maxsize=256)
def _host_and_port(url: str) -> tuple[str, int | None]:
    parts = urlsplit(url)
    default = {"https": 443, "http": 80}.get(parts.scheme)
    return parts.hostname or "", parts.port or default


def resolve_target(config: Config, target: str, headers: Headers = ()) -> Target:
    """Return where the raw request target (path and query) leads.

    Raises:
        UnknownUpstream: nothing is configured for it.
    """
    named, whole = _named(target)
    if named is not None and named not in config.upstreams:
        raise UnknownUpstream(upstream=named[:64])
    path = whole.partition("?")[0]
    route = None
    for each in config.routes:
        if _fits(each, named, path):
            route = each
            break
    upstream = (route.upstream if route else None) or named or _by_path(path, headers)
    if upstream is None:
        raise UnknownUpstream(upstream=None, is_admin=path in _ADMIN_PATHS)
    return _target(config, upstream, whole, route)


def lowered(target: Target, asked: bytes | None) -> Target:
    """Return the target in the mode a client asks for, where that is the lower one."""
    if asked is None:
        return target
    mode = _ASKED_MODES.get(asked.strip().lower())
    if mode is None or _MODES.index(mode) >= _MODES.index(target.mode):
        return target
    return replace(target, mode=mode)


def route_labels(config: Config) -> tuple[str, ...]:
    """Return every value that `Target.route` may take, in a fixed order."""
    labels = [route.label for route in config.routes]
    return tuple(dict.fromkeys((*labels, *config.upstreams)))


def _named(target: str) -> tuple[str | None, str]:
    if not target.startswith("/@"):
        return None, target
    end = next((at for at, c in enumerate(target) if at and c in "/?"), len(target))
    return target[2:end], target[end:]


def _fits(route: Route, named: str | None, path: str) -> bool:
    if named is not None and route.upstream not in (None, named):
        return False
    if route.path.endswith("*"):
        return path.startswith(route.path[:-1])
    return path == route.path


def _by_path(path: str, headers: Headers) -> str | None:
    if path == "/":
        return _PROBED
    # Google's methods stand behind a colon, below OpenAI's /v1/models as well.
    if _GOOGLE_METHOD.fullmatch(path):
        return "gemini"
    for prefix, upstream in _BUILT_IN_PATHS:
        if path == prefix or path.startswith(f"{prefix}/"):
            is_shared = upstream == "openai" and any(
                name.lower() == _ANTHROPIC_HEADER for name, _ in headers
            )
            return "anthropic" if is_shared else upstream
    return None


def _target(config: Config, upstream: str, whole: str, route: Route | None) -> Target:
    at = config.upstreams[upstream]
    path = whole.partition("?")[0]
    endpoint = endpoint_at(path)
    return Target(
        upstream=upstream,
        url=at.url,
        path=whole,
        api=endpoint.api,
        family=family_at(path) if at.wire == "auto" else at.wire,
        is_compaction=endpoint.is_compaction,
        placement=at.placement,
        # The upstream's name is a bounded label; a path of the client would not be.
        route=route.label if route else upstream,
        mode=route.mode if route else "observe",
        on_error=(route.on_error if route else None) or config.on_error,
        model=endpoint.model,
        is_streamed=endpoint.is_streamed,
    )
