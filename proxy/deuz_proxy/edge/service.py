"""One request's whole life at the edge: the line, and what the client sees if it fails.

Rules:
- Faults of the line end here, and only here: each becomes an answer and is counted.
- A client that has gone is not answered.
"""

from collections.abc import Callable

from deuz_proxy.config.routing import resolve_target
from deuz_proxy.edge.answers import answer_error, as_sidecar_error
from deuz_proxy.edge.inbound import HttpClient, HttpIncoming
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.events import FaultCaught
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime
from deuz_proxy.serve import serve_call


class Service:
    """Serves requests with the runtime in force when each one comes in."""

    def __init__(self, current: Callable[[], Runtime]) -> None:
        self._current = current
        self.in_flight = 0

    async def __call__(self, incoming: HttpIncoming, client: HttpClient) -> None:
        """Serve one request; never raises but for the client's own leaving."""
        runtime = self._current()
        self.in_flight += 1
        try:
            await serve_call(incoming, client, runtime, Watch(runtime.monotonic))
        except Exception as fault:  # noqa: BLE001  # The last place to answer from.
            await self._answer(incoming, client, runtime, as_sidecar_error(fault))
        finally:
            self.in_flight -= 1

    async def _answer(
        self,
        incoming: HttpIncoming,
        client: HttpClient,
        runtime: Runtime,
        fault: SidecarError,
    ) -> None:
        api, route = "", "unrouted"
        try:
            target = resolve_target(runtime.config, incoming.target, incoming.headers)
            api, route = target.api or target.family, target.route
        except SidecarError:
            pass  # The fault itself says that there is no such place.
        runtime.notice(FaultCaught(route, "forward", fault.code))
        try:
            await answer_error(client, api, fault)
        except OSError:
            client.abort()
