"""deuz_proxy waits: sockets, clocks and stores around the pure compiler."""

__version__ = "0.1.0"
