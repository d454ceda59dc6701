"""Reading bodies of the admin API, and answering with models or with every fault.

Rules:
- A body over the limit is refused before it is read to its end.
- A store that fails is the sidecar's fault: 503, and trying again is harmless.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from deuz_compiler import MalformedInput
from deuz_proxy.edge.admin_bodies import Fault, faults_of
from deuz_proxy.edge.admin_web import Answer, Handler, Request, Response, answer_json
from deuz_proxy.errors import BodyTooLarge, StoreFailed
from deuz_proxy.observe.inflate import Undecodable
from deuz_proxy.runtime import Runtime

MAX_BODY_BYTES = 4 * 1024 * 1024
_SHOWN_FAULTS = 100

_Model = TypeVar("_Model", bound=BaseModel)
_Work = Callable[[Request, Runtime], Awaitable[Answer]]


class Refused(Exception):
    """A request that is answered with an error: its faults, one code and one status."""

    def __init__(self, status: int, code: str, faults: Sequence[Fault]) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.faults = faults


def invalid(where: str, what: str) -> Refused:
    """Return the refusal of a request with this one fault."""
    return Refused(400, "invalid_request", [Fault(where=where, what=what)])


def explained(work: _Work, runtime: Callable[[], Runtime]) -> Handler:
    """Return the handler that does this with the runtime in force, faults told."""

    async def handler(request: Request) -> Answer:
        try:
            return await work(request, runtime())
        except Refused as fault:
            return refuse_with(fault)
        except MalformedInput as fault:
            faults = [_split(text) for text in fault.faults]
            return refuse_with(Refused(400, "invalid_request", faults))
        except StoreFailed as fault:
            told = Fault(where=fault.store, what=f"{fault}; try again, it is harmless")
            return refuse_with(Refused(503, "store_unavailable", [told]))

    return handler


def refuse_with(refused: Refused) -> Response:
    """Return an error answer: how many faults there are, and each of them."""
    faults = refused.faults[:_SHOWN_FAULTS]
    listed = "; ".join(f"{fault.where}: {fault.what}" for fault in faults)
    more = len(refused.faults) - len(faults)
    error = {
        "code": refused.code,
        "message": listed + (f"; and {more} more" if more else ""),
        "faults": [fault.model_dump() for fault in faults],
    }
    return answer_json({"error": error}, status=refused.status)


def tell(content: BaseModel, *, status: int = 200) -> Response:
    """Return an answer; what is not known is left out."""
    return Response(content.model_dump_json(exclude_none=True).encode(), status)


async def read_model(request: Request, model: type[_Model]) -> _Model:
    """Return the body as a model.

    Raises:
        Refused: it is too large, no JSON, or has faults.
    """
    return check(model, await read_bytes(request, MAX_BODY_BYTES), where="body")


def check(model: type[_Model], text: bytes, *, where: str) -> _Model:
    """Return JSON as a model.

    Raises:
        Refused: it is no JSON, or has faults.
    """
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        faults = faults_of(error, model.model_json_schema(), where=where)
        raise Refused(400, "invalid_request", faults) from None


async def read_json(request: Request) -> object:
    """Return the body as a JSON value.

    Raises:
        Refused: it is too large or no JSON.
    """
    try:
        value: object = json.loads(await read_bytes(request, MAX_BODY_BYTES))
    except (ValueError, RecursionError):
        raise invalid("body", "is not JSON (allowed: an object)") from None
    return value


async def read_bytes(request: Request, limit_bytes: int) -> bytes:
    """Return the body.

    Raises:
        Refused: it is too large, or its encoding cannot be undone.
    """
    try:
        return await request.read(limit_bytes=limit_bytes)
    except (BodyTooLarge, Undecodable) as fault:
        if isinstance(fault, Undecodable) and fault.reason != "decoded_too_large":
            what = "is damaged, or of unknown encoding (allowed: gzip, br, zstd)"
            raise invalid("body", what) from fault
        what = f"is over {limit_bytes} bytes; send less at once"
        raise Refused(
            413, "body_too_large", [Fault(where="body", what=what)]
        ) from fault


def _split(text: str) -> Fault:
    where, _, what = text.partition(": ")
    return Fault(where=where, what=what) if what else Fault(where="body", what=where)
