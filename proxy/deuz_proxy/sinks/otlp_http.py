"""The way to a collector over HTTP/1.1, by the standard library's client.

Rules:
- One connection, kept: a batch every few seconds costs no handshake. One that the
  collector closed meanwhile is opened again at once, which is no try.
- A redirect is not followed, an answer's text is not read.
- Certificates are read when the first request goes out: a file that is not there loses
  telemetry, and does not keep the sidecar from starting.
"""

import base64
import contextlib
import gzip
import http.client
import ssl
import zlib
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from time import time
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from deuz_proxy.sinks.otlp import Target
from deuz_proxy.sinks.otlp_send import Outcome

_PASSING = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_HEADERS = {
    "content-type": "application/x-protobuf",
    "user-agent": "deuz-sidecar",
}
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
# What a collector says is not read; this much is taken in to keep the connection.
_MOST_ANSWER_BYTES = 65_536
_PORTS = {"http": 80, "https": 443}


class Proxy(Protocol):
    """A forward proxy."""

    @property
    def host(self) -> str:
        """Its name or address."""

    @property
    def port(self) -> int:
        """Where it listens."""

    @property
    def authorization(self) -> bytes | None:
        """What it is told to let us pass."""


FindProxy = Callable[[str, str, int], Proxy | None]


def no_proxy(_scheme: str, _host: str, _port: int) -> None:
    """Find none."""


class HttpWay:
    """One connection to a collector."""

    def __init__(self, target: Target, find_proxy: FindProxy = no_proxy) -> None:
        self._target = target
        self._find_proxy = find_proxy
        self._pack = _PACKERS.get(target.compression)
        self._headers = _HEADERS | dict(target.headers)
        if self._pack is not None:
            self._headers["content-encoding"] = target.compression
        self._connection: http.client.HTTPConnection | None = None
        self._path = ""

    def attempt(self, body: bytes, timeout_seconds: float) -> Outcome:
        """Post once; every failure is an outcome."""
        if self._pack is not None:
            body = self._pack(body)
        try:
            if self._connection is not None:
                with contextlib.suppress(ConnectionError):
                    return self._post(body, timeout_seconds)
                self.close()
            return self._post(body, timeout_seconds)
        except (OSError, http.client.HTTPException, ValueError) as fault:
            self.close()
            return Outcome(
                is_through=False,
                word=type(fault).__name__,
                is_passing=isinstance(fault, OSError),
            )

    def close(self) -> None:
        """Close the connection; the next try opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _post(self, body: bytes, timeout_seconds: float) -> Outcome:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._open()
        connection.timeout = timeout_seconds
        if connection.sock is not None:
            connection.sock.settimeout(timeout_seconds)
        connection.request("POST", self._path, body, self._headers)
        answer = connection.getresponse()
        answer.read(_MOST_ANSWER_BYTES)
        if not answer.isclosed():
            self.close()
        status = answer.status
        if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
            return Outcome(is_through=True)
        wait = _seconds(answer.headers.get("retry-after", ""), time())
        return Outcome(
            is_through=False,
            word=str(status),
            is_passing=status in _PASSING,
            wait_seconds=wait,
        )

    def _open(self) -> http.client.HTTPConnection:
        url = urlsplit(self._target.url)
        if url.scheme not in _PORTS or not url.hostname:
            raise http.client.InvalidURL
        host, port = url.hostname, url.port or _PORTS[url.scheme]
        self._path = urlunsplit(("", "", url.path or "/", url.query, ""))
        if url.username is not None:
            self._headers["authorization"] = _basic(url)
        proxy = self._find_proxy(url.scheme, host, port)
        to = (host, port) if proxy is None else (proxy.host, proxy.port)
        if url.scheme == "https":
            secure = http.client.HTTPSConnection(*to, context=_context(self._target))
            if proxy is not None:
                secure.set_tunnel(host, port, _said_to(proxy))
            return secure
        if proxy is not None:
            # Such a proxy is told the whole address.
            self._path = f"http://{url.netloc.rpartition('@')[2]}{self._path}"
            self._headers |= _said_to(proxy)
        return http.client.HTTPConnection(*to)


def _context(target: Target) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=target.certificate or None)
    context.set_alpn_protocols(["http/1.1"])
    if target.client_certificate:
        context.load_cert_chain(target.client_certificate, target.client_key or None)
    return context


def _basic(url: SplitResult) -> str:
    said = f"{unquote(url.username or '')}:{unquote(url.password or '')}"
    return f"Basic {base64.b64encode(said.encode()).decode()}"


def _said_to(proxy: Proxy) -> dict[str, str]:
    if proxy.authorization is None:
        return {}
    return {"proxy-authorization": proxy.authorization.decode("latin-1")}


def _seconds(retry_after: str, now: float) -> float | None:
    """Return how long the header asks to wait: it holds seconds, or a date."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now)
    except ValueError:
        return None
