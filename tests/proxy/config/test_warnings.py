from typing import Any

import pytest

from deuz_proxy.config.model import Config
from deuz_proxy.config.warnings import list_warnings

SOURCES = {"sources": [{"type": "static", "records": []}]}


def warned(*routes: dict[str, Any], **fields: Any) -> tuple[str, ...]:
    config = {"routes": routes, "context": SOURCES, **fields}
    return list_warnings(Config.model_validate(config))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"path": "/v1/*"}, {"path": "/v1/messages"}),
        ({"path": "/v1/*"}, {"path": "/v1/chat/*"}),
        (
            {"path": "/v1/*", "upstream": "openai"},
            {"path": "/v1/x", "upstream": "openai"},
        ),
        ({"path": "/*"}, {"path": "/v1/x", "upstream": "openai"}),
    ],
)
def test_a_route_behind_one_that_fits_all_of_it_is_never_reached(
    first: dict[str, str], second: dict[str, str]
) -> None:
    assert warned({"path": "/other"}, first, second) == (
        f"routes[2] ({second['path']}): is never reached: routes[1] "
        f"({first['path']}) fits first",
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"path": "/v1/messages"}, {"path": "/v1/*"}),
        ({"path": "/v1/chat/*"}, {"path": "/v1/messages"}),
        # By /@anthropic/v1/messages the second is reached.
        ({"path": "/v1/*", "upstream": "openai"}, {"path": "/v1/messages"}),
    ],
)
def test_a_route_that_some_requests_reach_is_no_reason_to_warn(
    first: dict[str, str], second: dict[str, str]
) -> None:
    assert warned(first, second) == ()


@pytest.mark.parametrize(
    ("mode", "overflow", "does"),
    [
        ("compile", {}, "overflow is recovered"),
        ("compile", {"recover": False}, "it watches"),
        ("shadow", {}, "it watches"),
    ],
)
def test_a_route_that_compiles_without_sources_is_told_what_it_does(
    mode: str, overflow: dict[str, bool], does: str
) -> None:
    route = {"path": "/v1/messages", "mode": mode}

    assert warned(route, context={}, overflow=overflow) == (
        f"routes[0] (/v1/messages): is in mode {mode}, but context.sources is empty: "
        f"nothing is added, {does} only",
    )


def test_a_route_that_compiles_with_a_source_is_no_reason_to_warn() -> None:
    assert warned({"path": "/v1/messages", "mode": "compile"}) == ()


def test_a_route_that_watches_needs_no_source() -> None:
    assert warned({"path": "/v1/messages"}, context={}) == ()
