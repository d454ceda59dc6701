"""All that tells of requests: the sinks behind one fanout, and the admin address.

Rules:
- One for each sidecar, whatever the number of its workers: sums are right because all
  events come to the same listeners.
- It answers until the last request is through: the owner closes it behind the line.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack

from deuz_proxy import __version__
from deuz_proxy.config.model import Config, redacted
from deuz_proxy.config.routing import route_labels
from deuz_proxy.config.windows import Models
from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.edge.listening import join_address, listen_failed, split_address
from deuz_proxy.edge.proxies import proxies_of
from deuz_proxy.observe.events import Fanout
from deuz_proxy.observe.names import NEWEST, OLDER
from deuz_proxy.runtime import Runtime
from deuz_proxy.sinks.families import Bounds
from deuz_proxy.sinks.feed import Feed
from deuz_proxy.sinks.otlp import Targets, resolve_targets
from deuz_proxy.sinks.prometheus import PrometheusSink
from deuz_proxy.sinks.telemetry import Identity, Telemetry, open_telemetry

_TELEMETRY_GRACE_SECONDS = 3.0
_GRACE_SECONDS = 1.0


class Telling:
    """The sinks and the admin server. What it opens is closed by the owner's stack."""

    def __init__(
        self, config: Config, environ: Mapping[str, str], stack: AsyncExitStack
    ) -> None:
        self._environ = environ
        self._stack = stack
        self.config = config
        self.labels = label_bounds(config)
        self.feed = Feed(generation=secrets.token_hex(4))
        self.prometheus = PrometheusSink(self.labels)
        self.fanout: Fanout

    def open(self) -> None:
        """Open the sinks."""
        telemetry = self._open_telemetry()
        # As methods: an instance is called by way of its class, which takes longer.
        told = self.prometheus.__call__, self.feed.__call__
        self.fanout = Fanout(told, telemetry.listeners)
        self._stack.push_async_callback(
            asyncio.to_thread, telemetry.close, _TELEMETRY_GRACE_SECONDS
        )

    def reload(self, config: Config) -> None:
        """Take the names that labels may have from a new config, and show it.

        Those of the one before stay: what began under it is still to be told of.
        """
        earlier, fresh = label_bounds(self.config), label_bounds(config)
        self.config = config
        self.labels.routes = fresh.routes | earlier.routes
        self.labels.sources = fresh.sources | earlier.sources
        self.labels.known_model = fresh.known_model
        self.prometheus.prepare()

    async def listen(
        self,
        address: str,
        *,
        readiness: Callable[[], Sequence[str]],
        served_at: Callable[[], str],
        runtime: Callable[[], Runtime] | None = None,
    ) -> str:
        """Answer at the admin address; return it with the port that was bound.

        Raises:
            ListenFailed: it cannot be listened on.
        """
        token = self.config.admin.token
        admin = make_admin(
            AdminParts(
                feed=self.feed,
                metrics=self.prometheus.render,
                readiness=readiness,
                config=lambda: redacted(self.config) | {"listen": served_at()},
                faults=lambda: self.fanout.faults,
                runtime=runtime,
            ),
            token=token.get_secret_value() if token else None,
            hosts=(address.rpartition(":")[0],),
        )
        self._stack.push_async_callback(admin.close, grace_seconds=_GRACE_SECONDS)
        try:
            bound = await admin.listen(*split_address(address))
        except OSError as fault:
            raise listen_failed(fault, name="admin", address=address) from fault
        return join_address(address, bound)

    def _open_telemetry(self) -> Telemetry:
        otlp = self.config.telemetry.otlp
        targets = resolve_targets(
            self._environ,
            endpoint=str(otlp.endpoint) if otlp.endpoint else None,
            protocol=otlp.protocol,
            headers={k: v.get_secret_value() for k, v in otlp.headers.items()},
        ) or Targets(None, None)
        return open_telemetry(
            targets,
            self.prometheus,
            Identity(
                __version__,
                secrets.randbits,
                OLDER if self.config.telemetry.legacy_names else NEWEST,
            ),
            find_proxy=proxies_of(self.config.proxy, self._environ).find,
        )


def label_bounds(config: Config) -> Bounds:
    """Return the names that labels may take under this config."""
    return Bounds(
        routes=frozenset(route_labels(config)),
        sources=frozenset(source.id for source in config.context.sources),
        known_model=Models(config.models).known,
    )
