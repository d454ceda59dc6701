"""One request's whole life at the edge: the line, and what the client sees if it fails.

Rules:
- Faults of the line end here, and only here: each becomes an answer and is counted.
- A client that has gone is not answered.
- What the client was told is no fault that nobody saw: only what was not admitted, or
  has no name, is counted as one.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from deuz_compiler import error_body
from deuz_proxy.calls import Incoming
from deuz_proxy.config.routing import resolve_target
from deuz_proxy.edge.answers import answer_error, as_sidecar_error
from deuz_proxy.errors import SidecarError, UpstreamUnreachable
from deuz_proxy.observe.events import FaultCaught
from deuz_proxy.observe.vocabulary import OTHER
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Client
from deuz_proxy.runtime import Runtime
from deuz_proxy.serve import serve_call

_log = logging.getLogger("deuz_proxy")
# Often enough to be seen in a terminal, rare enough not to fill a log.
_COMPLAIN_SECONDS = 60.0


class Service:
    """Serves requests with the runtime in force when each one comes in."""

    def __init__(self, current: Callable[[], Runtime]) -> None:
        self._current = current
        # By upstream: as many as the config names.
        self._silent_until: dict[str, float] = {}
        # How many are served with a runtime, by its identity: they hold it.
        self._served: dict[int, int] = {}
        self._left: dict[int, asyncio.Event] = {}

    @property
    def in_flight(self) -> int:
        """How many requests are being served."""
        return sum(self._served.values())

    async def left(self, runtime: Runtime) -> None:
        """Return once nobody is served with this runtime."""
        if id(runtime) in self._served:
            await self._left.setdefault(id(runtime), asyncio.Event()).wait()

    async def __call__(self, incoming: Incoming, client: Client) -> None:
        """Serve one request; never raises but for the client's own leaving."""
        runtime, served = self._current(), self._served
        name = id(runtime)
        served[name] = served.get(name, 0) + 1
        try:
            await serve_call(incoming, client, runtime, Watch(runtime.monotonic))
        except Exception as fault:  # noqa: BLE001  # The last place to answer from.
            self._answer(incoming, client, runtime, as_sidecar_error(fault))
        finally:
            served[name] -= 1
            if not served[name]:
                self._let_go(name)

    def refuse(self, fault: SidecarError, asked: str | None) -> bytes:
        """Return the body that refuses what was not read, in the provider's shape."""
        api = ""
        if asked is not None:
            with contextlib.suppress(SidecarError):
                target = resolve_target(self._current().config, asked)
                api = target.api or target.family
        return error_body(api, status=fault.status, code=fault.code, message=str(fault))

    def _let_go(self, name: int) -> None:
        del self._served[name]
        if (left := self._left.pop(name, None)) is not None:
            left.set()

    def _answer(
        self,
        incoming: Incoming,
        client: Client,
        runtime: Runtime,
        fault: SidecarError,
    ) -> None:
        api, route, where = "", OTHER, "admit"
        try:
            target = resolve_target(runtime.config, incoming.target, incoming.headers)
            api, route = target.api or target.family, target.route
            where = "forward"
            self._complain(target.upstream, fault, runtime)
        except SidecarError:
            pass  # The fault itself says that there is no such place.
        # Of an admitted request its own event tells; a fault without a name is a bug.
        if where == "admit" or fault.code == SidecarError.code:
            runtime.notice(FaultCaught(route, where, fault.code))
        try:
            answer_error(client, api, fault)
        except OSError:
            client.abort()

    def _complain(self, name: str, fault: SidecarError, runtime: Runtime) -> None:
        """Tell the operator which upstream cannot be reached, not once a request."""
        if not isinstance(fault, UpstreamUnreachable):
            return
        now = runtime.monotonic()
        if now < self._silent_until.get(name, now):
            return
        self._silent_until[name] = now + _COMPLAIN_SECONDS
        _log.warning("%s; see upstreams.%s.url", fault, name)
