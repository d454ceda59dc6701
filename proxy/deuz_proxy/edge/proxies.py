"""Which forward proxy leads to an upstream, as the environment says.

Rules:
- `HTTPS_PROXY` is for https upstreams, `HTTP_PROXY` for http ones, `ALL_PROXY` for both
  where theirs is not set; of a name in both cases, the lower-case one counts.
- Never to loopback: `localhost`, names below it, 127.0.0.0/8, ::1.
- Nor to what `NO_PROXY` lists: `*`, names with all names below them, addresses and
  networks, each with a port if that is meant alone.
- Only `http://` proxies can be used; another one is told at the start, by its variable,
  and when an upstream needs it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from urllib.parse import SplitResult, unquote, urlsplit

_USUAL_PORT = 80
_OTHER_KINDS = ("https", "socks", "socks4", "socks4a", "socks5", "socks5h")
_NAMES = {"https": ("https_proxy", "all_proxy"), "http": ("http_proxy", "all_proxy")}


class NoWayThrough(OSError):
    """The proxy cannot be used, cannot be reached, or opens no tunnel.

    Without its address, which may hold a password.
    """


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where a forward proxy is. `authorization` is the value of its header line."""

    host: str
    port: int
    authorization: bytes | None = field(default=None, repr=False)


class Proxies:
    """The proxies of one environment."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = {name.lower(): value for name, value in environ.items()}
        # A lower-case name wins over the same in capitals.
        values |= {n: v for n, v in environ.items() if n == n.lower()}
        self._written = {name.lower(): name for name in sorted(environ)}
        named = {
            scheme: next((n for n in names if values.get(n, "").strip()), "")
            for scheme, names in _NAMES.items()
        }
        self._named = {scheme: name for scheme, name in named.items() if name}
        self._urls = {s: values[name].strip() for s, name in self._named.items()}
        spared = values.get("no_proxy", "").replace(",", " ").split()
        self._spared = tuple(_Spared.read(entry) for entry in spared)

    def find(self, scheme: str, host: str, port: int) -> Proxy | None:
        """Return the proxy for an upstream, or None if it is reached directly.

        Raises:
            NoWayThrough: what is named is not an `http://` proxy.
        """
        url = self._urls.get(scheme)
        if not url or is_loopback(host):
            return None
        if any(entry.fits(host.lower().rstrip("."), port) for entry in self._spared):
            return None
        return _read(url)

    def complaints(self) -> tuple[str, ...]:
        """Return which variables name what cannot be used, and what to do, a line each.

        Without their values, which may hold a password.
        """
        if any(entry.name == "*" and entry.port is None for entry in self._spared):
            return ()
        schemes: dict[str, list[str]] = {}
        for scheme, name in self._named.items():
            if not _is_usable(self._urls[scheme]):
                schemes.setdefault(name, []).append(scheme)
        return tuple(
            [
                f"{self._written[name]} names {_kind(self._urls[used[0]])}, and only"
                f" http:// proxies can be used: no {' or '.join(sorted(used))} upstream"
                " can be reached but on loopback; name an http:// proxy, list the"
                " upstreams in NO_PROXY, or set proxy: none in the config"
                for name, used in schemes.items()
            ]
        )


def proxies_of(rule: str, environ: Mapping[str, str]) -> Proxies:
    """Return the proxies that the config's `proxy` lets be used."""
    return Proxies(environ if rule == "environment" else {})


NO_PROXIES = Proxies({})


def is_loopback(host: str) -> bool:
    """Tell whether the host is this machine by its name or address alone."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or (mapped is not None and mapped.is_loopback)


@dataclass(frozen=True, slots=True)
class _Spared:
    """One entry of `NO_PROXY`."""

    name: str
    port: int | None

    @classmethod
    def read(cls, entry: str) -> "_Spared":
        name, colon, port = entry.lower().rpartition(":")
        is_port = bool(colon) and port.isdecimal() and (":" not in name or "]" in name)
        if not is_port:
            name, port = entry.lower(), ""
        name = name.strip("[]").removeprefix("*.").strip(".")
        return cls(name, int(port) if port else None)

    def fits(self, host: str, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.name in ("*", host) or host.endswith(f".{self.name}"):
            return bool(self.name)
        try:
            return ip_address(host) in ip_network(self.name, strict=False)
        except ValueError:
            return False


def _read(url: str) -> Proxy:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or _USUAL_PORT
    except ValueError as fault:
        raise NoWayThrough from fault
    if parts.scheme != "http" or not parts.hostname:
        raise NoWayThrough
    return Proxy(parts.hostname, port, _authorization(parts))


def _is_usable(url: str) -> bool:
    try:
        _read(url)
    except NoWayThrough:
        return False
    return True


def _kind(url: str) -> str:
    """Return what a URL names, in words of ours: a part of it may be a password."""
    scheme = url.partition("://")[0].lower()
    if scheme in _OTHER_KINDS:
        return f"a {scheme}:// proxy"
    return "no whole URL of a proxy" if scheme == "http" else "no http:// proxy"


def _authorization(parts: SplitResult) -> bytes | None:
    if parts.username is None:
        return None
    user, password = unquote(parts.username), unquote(parts.password or "")
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())
