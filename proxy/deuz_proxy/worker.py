"""One worker: it serves requests and tells its keeper; `python -m deuz_proxy.worker`.

Rules:
- It listens to its keeper, not to signals: a terminal and systemd send them to all
  processes at once, and the keeper says what is to be done.
- A keeper that is gone ends it: drained, if the keeper was killed; at once, if it was
  told to drain already and the keeper did not wait. What the keeper kept goes, too.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import uvloop

from deuz_proxy.edge.worker_channel import (
    Begin,
    Channel,
    Drain,
    Listening,
    Message,
    Prepare,
    Prepared,
    Refused,
    Take,
    Taken,
    unpack_config,
)
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.events import Fanout, Listener
from deuz_proxy.runtime import Runtime
from deuz_proxy.serving import Serving
from deuz_proxy.sinks.outbox import Outbox
from deuz_proxy.tuning import tune_process

_HEARD_BY_THE_KEEPER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_EXIT_LEFT = 1
# A keeper that does not read the last events in this time does not want them.
_LAST_SECONDS = 3.0


def main() -> None:
    """Serve for the keeper at the other end of the socket that the argument names."""
    for name in _HEARD_BY_THE_KEEPER:
        signal.signal(name, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    # For this process alone: what a source starts must not keep the channel open.
    connection.set_inheritable(False)
    uvloop.run(serve_keeper(connection, os.environ, leave=os._exit))


async def serve_keeper(
    connection: socket.socket,
    environ: Mapping[str, str],
    *,
    leave: Callable[[int], None],
) -> None:
    """Serve as the keeper asks, until it says so or is gone; `leave` ends at once."""
    worker = Worker(environ, leave)
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_unix_connection(
        lambda: Channel(worker.take, worker.lose_keeper), sock=connection
    )
    await worker.run(channel)


class Worker:
    """A worker's life: begun, told of configs, drained."""

    def __init__(
        self, environ: Mapping[str, str], leave: Callable[[int], None]
    ) -> None:
        self._environ = environ
        self._leave = leave
        self._asked: asyncio.Queue[Message | None] = asyncio.Queue()
        self._prepared: Runtime | None = None
        self._is_draining = False
        self._lost = asyncio.Event()
        self._folder = ""

    def take(self, message: Message) -> None:
        """Note what the keeper asks; it is done in this order."""
        self._asked.put_nowait(message)

    def lose_keeper(self) -> None:
        """End, since the keeper is gone."""
        self._lost.set()
        self._asked.put_nowait(None)
        if self._is_draining:
            self._forget_folder()
            self._leave(_EXIT_LEFT)

    def _forget_folder(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def run(self, channel: Channel) -> None:
        """Serve from the keeper's first word to the last event's way to it."""
        begin = await self._asked.get()
        if isinstance(begin, Begin):
            self._folder = begin.folder
            later = asyncio.get_running_loop().call_later
            outbox = Outbox(channel.transport, later)
            async with AsyncExitStack() as stack:
                # The first in, the last out: also what is closed has things to tell.
                stack.callback(outbox.flush)
                await self._serve(begin, channel, Fanout((outbox,)), stack)
            if self._lost.is_set():
                self._forget_folder()
        self._is_draining = False
        channel.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._lost.wait()

    async def _serve(
        self, begin: Begin, channel: Channel, notice: Listener, stack: AsyncExitStack
    ) -> None:
        serving = Serving(unpack_config(begin.config), self._environ, stack)
        try:
            await serving.open(notice)
            await serving.listen(begin.address, is_shared=True)
        except (SidecarError, OSError) as fault:
            channel.send(Refused(str(fault)))
            return
        tune_process()
        channel.send(Listening())
        await self._obey(serving, channel)

    async def _obey(self, serving: Serving, channel: Channel) -> None:
        """Do what the keeper asks, until it asks to drain or is gone."""
        while (asked := await self._asked.get()) is not None:
            if isinstance(asked, Prepare):
                channel.send(await self._prepare(serving, asked))
            elif isinstance(asked, Take):
                channel.send(await self._take_prepared(serving))
            elif isinstance(asked, Drain):
                self._is_draining = True
                return

    async def _take_prepared(self, serving: Serving) -> Taken:
        if self._prepared is not None:
            taken, self._prepared = self._prepared, None
            await serving.take(taken)
        return Taken()

    async def _prepare(self, serving: Serving, asked: Prepare) -> Prepared | Refused:
        # Prepared and, since another worker could not, never taken.
        if self._prepared is not None:
            await serving.drop(self._prepared)
            self._prepared = None
        try:
            self._prepared = await serving.prepare(unpack_config(asked.config))
        except Exception as fault:  # noqa: BLE001  # A reload must not end what runs.
            return Refused(type(fault).__name__)
        return Prepared()


if __name__ == "__main__":
    main()
