"""Which proxy the environment names for which upstream."""

import pytest

from deuz_proxy.edge.proxies import (
    NoWayThrough,
    Proxies,
    Proxy,
    is_loopback,
    proxies_of,
)

PROXY = Proxy("proxy.test", 3128)
URL = "http://proxy.test:3128"
HOST = "api.example.com"


@pytest.mark.parametrize(
    ("environ", "plain", "encrypted"),
    [
        ({}, False, False),
        ({"HTTP_PROXY": URL}, True, False),
        ({"https_proxy": URL}, False, True),
        ({"ALL_PROXY": URL}, True, True),
        ({"ALL_PROXY": URL, "HTTP_PROXY": " "}, True, True),
        ({"HTTPS_PROXY": "http://other:1", "https_proxy": URL}, False, True),
        ({"HTTPS_PROXY": URL, "https_proxy": ""}, False, False),
        ({"HTTP_PROXY": "proxy.test:3128"}, True, False),
    ],
)
def test_each_scheme_has_its_variable_and_lower_case_wins(
    environ: dict[str, str], plain: bool, encrypted: bool
) -> None:
    proxies = Proxies(environ)

    assert proxies.find("http", HOST, 80) == (PROXY if plain else None)
    assert proxies.find("https", HOST, 443) == (PROXY if encrypted else None)


LOOPBACK = ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1")


@pytest.mark.parametrize("host", [*LOOPBACK, "::ffff:127.0.0.1"])
def test_loopback_is_never_reached_through_a_proxy(host: str) -> None:
    assert is_loopback(host)
    assert Proxies({"ALL_PROXY": URL}).find("http", host, 80) is None


@pytest.mark.parametrize("host", ["localhost.test", "10.0.0.1", "::2", "127.test"])
def test_what_only_looks_like_loopback_is_not(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("spared", "host", "is_spared"),
    [
        ("*", HOST, True),
        ("example.com", HOST, True),
        (".example.com", HOST, True),
        ("*.example.com", HOST, True),
        ("example.com", "badexample.com", False),
        ("a.test, API.Example.com", HOST, True),
        ("a.test b.test", "x.b.test", True),
        ("example.com:443", HOST, True),
        ("example.com:8443", HOST, False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("fd00::/8", "fd00::7", True),
        ("[fd00::7]:443", "fd00::7", True),
        ("[fd00::7]:80", "fd00::7", False),
        ("fd00::7", "fd00::7", True),
        (",, ,", HOST, False),
        (".", HOST, False),
        ("10.0.0.0/99", "10.0.0.1", False),
    ],
)
def test_what_is_spared_is_reached_directly(
    spared: str, host: str, is_spared: bool
) -> None:
    proxies = Proxies({"HTTPS_PROXY": URL, "NO_PROXY": spared})

    assert (proxies.find("https", host, 443) is None) == is_spared


def test_a_password_becomes_a_line_and_is_never_shown() -> None:
    proxy = Proxies({"HTTP_PROXY": "http://me:s%20cret@p"}).find("http", HOST, 80)

    assert proxy is not None
    assert (proxy.host, proxy.port) == ("p", 80)
    assert proxy.authorization == b"Basic bWU6cyBjcmV0"
    assert "bWU6" not in repr(proxy)
    assert "s%20cret" not in repr(proxy)


@pytest.mark.parametrize(
    "url", ["socks5://p:1", "https://p:1", "http://:1", "http://p:x", "http://[p"]
)
def test_a_proxy_that_cannot_be_used_is_told_where_it_is_needed(url: str) -> None:
    proxies = Proxies({"ALL_PROXY": url})

    assert proxies.find("http", "127.0.0.1", 80) is None
    with pytest.raises(NoWayThrough) as caught:
        proxies.find("http", HOST, 80)
    assert str(caught.value) == ""


@pytest.mark.parametrize(
    ("environ", "starts"),
    [
        ({"HTTPS_PROXY": "socks5://me:secret@p:1"}, ["HTTPS_PROXY names a socks5://"]),
        ({"https_proxy": "https://me:secret@p:1"}, ["https_proxy names a https://"]),
        ({"HTTP_PROXY": "http://me:secret@p:x"}, ["HTTP_PROXY names no whole URL"]),
        ({"ALL_PROXY": "secret://p:1"}, ["ALL_PROXY names no http:// proxy"]),
        (
            {"ALL_PROXY": "socks5://secret@p", "HTTPS_PROXY": "socks5h://secret@p"},
            ["HTTPS_PROXY names a socks5h://", "ALL_PROXY names a socks5://"],
        ),
        ({"ALL_PROXY": "socks5://p", "HTTPS_PROXY": URL, "HTTP_PROXY": URL}, []),
        ({"ALL_PROXY": "socks5://secret@p", "NO_PROXY": "*"}, []),
        ({"HTTPS_PROXY": " "}, []),
        ({}, []),
    ],
)
def test_what_cannot_be_used_is_told_by_its_variable_without_its_value(
    environ: dict[str, str], starts: list[str]
) -> None:
    told = Proxies(environ).complaints()

    assert [line[: len(start)] for line, start in zip(told, starts, strict=True)] == (
        starts
    )
    assert "secret" not in "".join(told)


def test_a_variable_for_both_schemes_is_told_once_with_what_to_do() -> None:
    (told,) = Proxies({"all_proxy": "socks5://p:1"}).complaints()

    assert "no http or https upstream can be reached but on loopback" in told
    assert told.endswith("or set proxy: none in the config")


def test_the_config_switches_all_of_them_off() -> None:
    environ = {"ALL_PROXY": "socks5://p:1"}

    assert len(proxies_of("environment", environ).complaints()) == 1
    assert proxies_of("none", environ).complaints() == ()
