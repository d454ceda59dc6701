"""What is over a bound is refused with the bound and the field that moves it."""

import pytest

from deuz_proxy.config.model import Limits
from deuz_proxy.edge.http1_bounds import refusal_of
from deuz_proxy.edge.http1_framing import NotHttp
from deuz_proxy.edge.http1_wire import Head, HeadTooLong, read_request
from deuz_proxy.errors import (
    BodyTooLarge,
    RequestTooSlow,
    SidecarError,
    TooManyConnections,
    UpstreamBroken,
    UpstreamUnreachable,
)


def test_a_head_of_too_many_bytes_is_refused_with_their_number() -> None:
    with pytest.raises(HeadTooLong) as caught:
        Head(200).feed(b"G" * 201)

    words = "the request's head is over the limit of 200 bytes (limits.max_head_bytes)"
    assert str(refusal_of(caught.value)) == words


def test_a_head_of_too_many_lines_is_refused_with_their_number() -> None:
    with pytest.raises(HeadTooLong) as caught:
        read_request(b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n\r\n", most_lines=1)

    words = "the request's head is over the limit of 1 lines (limits.max_head_lines)"
    assert str(refusal_of(caught.value)) == words


def test_what_is_not_http_is_refused_as_such() -> None:
    assert refusal_of(NotHttp("bare line end")).code == "malformed_request"


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        (refusal_of(HeadTooLong(9, "bytes")), "9 bytes"),
        (refusal_of(HeadTooLong(9, "lines")), "9 lines"),
        (BodyTooLarge(limit_bytes=9), "9 bytes"),
        (RequestTooSlow("head", 0.5), "0.5 seconds"),
        (RequestTooSlow("body", 9.0), "9 seconds"),
        (TooManyConnections(limit=9), "9 connections"),
        (UpstreamBroken(upstream="u", silent_seconds=9.0), "9 seconds"),
        (UpstreamUnreachable(upstream="u", kind="timeout"), ""),
    ],
)
def test_every_limit_is_told_with_its_unit_and_a_field_that_is_there(
    fault: SidecarError, number: str
) -> None:
    told = str(fault)

    assert number in told
    assert told.partition("limits.")[2].rstrip(")") in Limits.model_fields
