"""The socket's side of the line: a listening address and the connections it accepted.

Rules:
- A client that ends its side of the connection has left, also where it has sent a whole
  request: what it waits for is cancelled within a turn of the loop.
- A connection has one task, in the server's own group, that serves its requests one
  after another; what is pipelined waits, bounded, and is read when its turn comes.
- A head that is not HTTP, too long or too slow is refused and ends the connection; not a
  byte of it is repeated or logged.
- Draining closes idle connections at once, others behind their answer, all of them when
  the grace is over.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from deuz_compiler import error_body
from deuz_proxy.edge.http1_connection import Connection, Http1Client, Http1Incoming
from deuz_proxy.errors import SidecarError

_SWEEP_SECONDS = 0.5

_log = logging.getLogger("deuz_proxy")

Serve = Callable[[Http1Incoming, Http1Client], Awaitable[None]]
