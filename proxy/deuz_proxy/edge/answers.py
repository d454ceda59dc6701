"""The one place where a cause becomes an answer of the sidecar's own.

Rules:
- Errors have the provider's shape, the type `sidecar_error` and a code of ours.
- Once the client has seen a byte, there is no answer: the connection is broken, so that
  nobody takes half an answer for a whole one.
"""

import logging
from http import HTTPStatus

from deuz_compiler import error_body
from deuz_proxy.errors import SidecarError
from deuz_proxy.ports import Client

_log = logging.getLogger("deuz_proxy")


def as_sidecar_error(fault: BaseException) -> SidecarError:
    """Return the fault as one of ours; a foreign one is logged by kind and place."""
    if isinstance(fault, SidecarError):
        return fault
    _log.error("fault in the sidecar: %s", type(fault).__name__, exc_info=_safe(fault))
    return SidecarError("the sidecar failed on this request")


def answer_error(client: Client, api: str, fault: SidecarError) -> int:
    """Give the client the fault in the provider's shape; return how many bytes.

    An answer under way is broken instead.
    """
    if client.has_started:
        client.abort()
        return 0
    body = error_body(api, status=fault.status, code=fault.code, message=str(fault))
    headers = (
        (b"Content-Type", b"application/json"),
        (b"Content-Length", str(len(body)).encode()),
    )
    client.start(fault.status, HTTPStatus(fault.status).phrase, headers)
    client.write(body)
    client.finish()
    return len(body)


def _safe(fault: BaseException) -> BaseException:
    """Return the fault with its place but without its text, which may hold content."""
    return Exception(type(fault).__name__).with_traceback(fault.__traceback__)
