from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deuz_proxy.config.outside import HttpSource, McpSource


def http(**fields: Any) -> HttpSource:
    return HttpSource.model_validate(
        {"type": "http", "url": "https://kb.example/query", **fields},
        context={"folder": Path("/etc/deuz")},
    )


def test_a_service_needs_its_address_only() -> None:
    made = http()

    assert (made.id, made.kind, made.required) == ("rag", "rag", False)
    assert made.max_answer_bytes == 1_048_576
    assert made.ca_file is None


def test_a_credential_is_never_shown() -> None:
    made = http(headers={"Authorization": "Bearer canary"})

    assert "canary" not in repr(made) + str(made.model_dump(mode="json"))
    assert made.headers["authorization"].get_secret_value() == "Bearer canary"


@pytest.mark.parametrize("name", ["Host", "content-length", "Accept-Encoding"])
def test_headers_that_the_client_writes_cannot_be_set(name: str) -> None:
    with pytest.raises(ValidationError, match="which the sidecar writes itself"):
        http(headers={name: "x"})


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "\x00", "\x7f", "€"])
def test_a_value_that_would_be_two_lines_is_refused_and_not_quoted(value: str) -> None:
    with pytest.raises(ValidationError, match="no header can hold") as caught:
        http(headers={"x-key": f"canary{value}"})

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["kb.example", "ftp://kb.example", "https://u:p@kb.example", "https://k?q=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        http(url=url)


@pytest.mark.parametrize("most", [0, 1023, 67_108_865])
def test_the_bound_of_an_answer_has_bounds(most: int) -> None:
    with pytest.raises(ValidationError):
        http(max_answer_bytes=most)


def test_certificates_are_found_from_the_config_files_folder() -> None:
    assert http(ca_file="tls/ca.pem").ca_file == Path("/etc/deuz/tls/ca.pem")


def mcp(**fields: Any) -> McpSource:
    return McpSource.model_validate({"type": "mcp", **fields})


def test_a_server_of_mcp_is_a_program_or_an_address() -> None:
    assert mcp(command=["npx", "notes"], tool="search").command == ("npx", "notes")
    assert mcp(url="https://m.example/mcp", tool="search").url is not None
    for both in ({}, {"command": ["npx"], "url": "https://m.example"}):
        with pytest.raises(ValidationError, match="needs a command or a url"):
            mcp(tool="search", **both)


def test_it_is_searched_by_a_tool_or_in_its_resources() -> None:
    assert mcp(command=["npx"], resources=True).tool is None
    for both in ({}, {"tool": "search", "resources": True}):
        with pytest.raises(ValidationError, match="needs a tool or resources"):
            mcp(command=["npx"], **both)


def test_variables_and_headers_of_a_server_are_never_shown() -> None:
    made = mcp(
        url="https://m.example",
        tool="search",
        env={"KEY": "canary"},
        headers={"x-key": "canary"},
    )

    assert "canary" not in repr(made) + str(made.model_dump(mode="json"))
    with pytest.raises(ValidationError, match="writes itself"):
        mcp(url="https://m.example", tool="search", headers={"host": "x"})


def test_certificates_of_a_server_are_found_from_the_folder_too() -> None:
    made = McpSource.model_validate(
        {"type": "mcp", "url": "https://m", "tool": "t", "ca_file": "ca.pem"},
        context={"folder": Path("/etc/deuz")},
    )

    assert made.ca_file == Path("/etc/deuz/ca.pem")
