import argparse

import pytest

from deuz_proxy.arguments import address, window_tokens, worker_count


@pytest.mark.parametrize("text", ["127.0.0.1:0", "localhost:65535", "[::1]:4141"])
def test_an_address_is_taken_as_it_is_written(text: str) -> None:
    assert address(text) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4141", "is not an address (allowed: HOST:PORT, [IPV6]:PORT)"),
        (":80", "is not an address (allowed: HOST:PORT, [IPV6]:PORT)"),
        ("::1:80", "is not an address (allowed: HOST:PORT, [IPV6]:PORT)"),
        ("host:\N{SUPERSCRIPT TWO}", "is not an address"),
        ("host:65536", "names a port out of range (allowed: 0 to 65535)"),
    ],
)
def test_what_is_no_address_is_shown_with_what_is_allowed(
    text: str, words: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        address(text)

    assert str(caught.value).startswith(f"{text!r} {words}")


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("64", 64), ("0002", 2)])
def test_a_number_of_workers_is_written_in_plain_digits(text: str, number: int) -> None:
    assert worker_count(text) == number


@pytest.mark.parametrize(
    "text",
    ["", "0", "-1", "65", "1.5", "two", " 2", "1_0", "\N{ARABIC-INDIC DIGIT TWO}"],
)
def test_what_is_no_number_of_workers_is_shown_with_the_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="number from 1 to 64"):
        worker_count(text)


@pytest.mark.parametrize("text", ["0", "-5", "abc", "1000000001", "9" * 5_000])
def test_a_window_that_nothing_fits_or_nobody_has_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 1000000000"):
        window_tokens(text)


def test_a_window_is_a_number_of_tokens() -> None:
    assert window_tokens("200000") == 200_000
