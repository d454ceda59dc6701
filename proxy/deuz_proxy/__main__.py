"""`python -m deuz_proxy` is `deuz-sidecar`."""

import sys

from deuz_proxy.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
