"""Who may read the admin address, and how a refusal looks.

Rules:
- With a token, `Authorization: Bearer` is asked for everywhere but at health, which
  probes read, and the page's files, which hold the form that asks for the token.
- Without a token, the name in `Host` must be a loopback name, an IP address or one that
  is allowed: a foreign page can rebind only a name of its own to this address.
- A request that another site's script sends is refused in both cases.
"""

import hmac
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from deuz_proxy.edge.admin_web import Guard, Request, Response, refuse

SECURITY_HEADERS: Mapping[str, str] = {
    # Only page files may be kept; they say so.
    "Cache-Control": "no-store",
    # Trusted types: even a mistake of ours cannot turn a string into markup or script.
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "deuz-sidecar",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def make_guard(token: str | None, hosts: Sequence[str]) -> Guard:
    """Build the guard that lets only the owner's requests through."""
    secret = token.encode() if token else None
    names = frozenset(("localhost", *(name.lower() for name in hosts)))

    def guard(request: Request) -> Response | None:
        if is_from_another_site(request.headers):
            return refuse(
                403,
                "cross_origin",
                "the admin address does not answer other sites; open its own page",
            )
        if secret is None and not is_own_name(request.headers.get("host"), names):
            return refuse(
                403,
                "unknown_host",
                "the Host header is neither a loopback name nor an IP address nor the "
                "listen host; use one of these, or set admin.token",
            )
        if secret is None or is_open(request.path) or has_token(request, secret):
            return None
        return refuse(
            401,
            "unauthorized",
            "the bearer token is missing or wrong; send Authorization: Bearer with the "
            "value of admin.token",
            headers={"WWW-Authenticate": "Bearer"},
        )

    return guard


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a script of another origin sent the request."""
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def is_own_name(host: str | None, names: frozenset[str]) -> bool:
    """Whether a Host header cannot be a foreign name that was rebound to us."""
    if host is None:
        # Browsers always send one, and only a browser can be tricked.
        return True
    try:
        name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return False
    return name in names or name.endswith(".localhost") or is_address(name)


def is_address(name: str) -> bool:
    """Whether a name is an IP address and not a name at all."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_open(path: str) -> bool:
    """Whether a path is answered without the token."""
    # Who may use the memory's tools is asked where they are served: a grant may, too.
    return path in {"/", "/healthz", "/readyz", "/mcp"} or path.startswith("/page/")


def has_token(request: Request, secret: bytes) -> bool:
    """Whether the request carries the token; the time taken tells nothing."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    given_bytes = given.strip().encode("utf-8", "surrogateescape")
    return scheme.lower() == "bearer" and hmac.compare_digest(given_bytes, secret)
