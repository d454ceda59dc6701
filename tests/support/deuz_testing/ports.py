"""A port for a server that wants to be told one and starts a moment later.

Rules:
- Whoever can listen on port 0 does that. This is for programs that cannot.
- Not one that the kernel gives out by itself: with thousands of connections that other
  tests open meanwhile, such a port is now and then taken before the server has it.
"""

import random
import socket

_LOWEST, _HIGHEST = 12_000, 32_000
"""Below what Linux gives to outgoing connections, 32768 and more."""


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on just now."""
    dice = random.SystemRandom()
    while True:
        port = dice.randint(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
