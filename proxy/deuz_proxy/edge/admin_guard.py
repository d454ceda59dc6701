"""Who may read the admin address, and how a refusal looks.

Rules:
- With a token, `Authorization: Bearer` is asked for everywhere but at health, which
  probes read, and the page's files, which hold the form that asks for the token.
- Without a token, the name in `Host` must be a loopback name, an IP address or one that
  is allowed: a foreign page can rebind only a name of its own to this address.
- A request that another site's script sends is refused in both cases.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

SECURITY_HEADERS: Mapping[str, str] = {
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


def make_guard(token: str | None, hosts: Sequence[str]) -> Middleware:
    """Build the middleware that lets only the owner's requests through."""
    secret = token.encode() if token else None
    names = frozenset(("localhost", *(name.lower() for name in hosts)))

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if is_from_another_site(request.headers):
            return refuse(
                403,
                "cross_origin",
                "the admin address does not answer other sites; open its own page",
            )
        if secret is None and not is_own_name(request.headers.get(hdrs.HOST), names):
            return refuse(
                403,
                "unknown_host",
                "the Host header is neither a loopback name nor an IP address nor the "
                "listen host; use one of these, or set admin.token",
            )
        if secret is None or is_open(request.path) or has_token(request, secret):
            return await handler(request)
        return refuse(
            401,
            "unauthorized",
            "the bearer token is missing or wrong; send Authorization: Bearer with the "
            "value of admin.token",
            headers={hdrs.WWW_AUTHENTICATE: "Bearer"},
        )

    return guard


def is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a script of another origin sent the request."""
    origin = headers.get(hdrs.ORIGIN)
    return origin is not None and origin.partition("://")[2] != headers.get(hdrs.HOST)


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


def has_token(request: web.Request, secret: bytes) -> bool:
    """Whether the request carries the token; the time taken tells nothing."""
    scheme, _, given = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    given_bytes = given.strip().encode("utf-8", "surrogateescape")
    return scheme.lower() == "bearer" and hmac.compare_digest(given_bytes, secret)


@web.middleware
async def explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn the router's refusals into ours."""
    try:
        return await handler(request)
    except web.HTTPNotFound:
        return refuse(
            404, "unknown_path", "nothing is at this path; the page at / shows what is"
        )
    except web.HTTPMethodNotAllowed as fault:
        allowed = ", ".join(sorted(fault.allowed_methods))
        return refuse(
            405,
            "method_not_allowed",
            f"this path does not take the method; use {allowed}",
            headers={hdrs.ALLOW: allowed},
        )


async def add_security_headers(
    request: web.Request, response: web.StreamResponse
) -> None:
    """Put the security headers on every answer; only page files may be kept."""
    response.headers.update(SECURITY_HEADERS)
    if hdrs.ETAG not in response.headers:
        response.headers[hdrs.CACHE_CONTROL] = "no-store"


def refuse(
    status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
) -> web.Response:
    """Return an error answer: what is wrong, where, and what to do."""
    return web.Response(
        body=json.dumps({"error": {"code": code, "message": message}}).encode(),
        status=status,
        headers=headers,
        content_type="application/json",
    )
