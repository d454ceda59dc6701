"""What a valid config says in vain: nothing is refused for it, but it may surprise.

Rules:
- A warning names its place and what follows from it; the order is the config's.
"""

from collections.abc import Iterator

from deuz_proxy.config.model import Config, Route

_COMPILING = ("shadow", "compile")


def list_warnings(config: Config) -> tuple[str, ...]:
    """Return what of a valid config has no effect, a line each."""
    return (*_unreached(config), *_empty(config))


def _unreached(config: Config) -> Iterator[str]:
    for index, route in enumerate(config.routes):
        for earlier, other in enumerate(config.routes[:index]):
            if _covers(other, route):
                yield (
                    f"routes[{index}] ({route.path}): is never reached: "
                    f"routes[{earlier}] ({other.path}) fits first"
                )
                break


def _covers(first: Route, second: Route) -> bool:
    """Tell whether all that fits the second fits the first already."""
    if first.upstream is not None and first.upstream != second.upstream:
        return False
    if not first.path.endswith("*"):
        return first.path == second.path
    return second.path.startswith(first.path[:-1])


def _empty(config: Config) -> Iterator[str]:
    if config.context.sources:
        return
    for index, route in enumerate(config.routes):
        if route.mode in _COMPILING:
            does = "overflow is recovered" if _recovers(config, route) else "it watches"
            yield (
                f"routes[{index}] ({route.path}): is in mode {route.mode}, but "
                f"context.sources is empty: nothing is added, {does} only"
            )


def _recovers(config: Config, route: Route) -> bool:
    return route.mode == "compile" and config.overflow.recover
