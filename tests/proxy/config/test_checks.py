import sys
from pathlib import Path

import pytest

from deuz_proxy.config.checks import check_all
from deuz_proxy.config.nodes import Place, read_document
from deuz_testing.tls import make_certificate

KEY = "sha256:" + "ab" * 32


def found(text: str, folder: Path = Path()) -> list[tuple[Place, int, str]]:
    document = read_document(text, {})
    check_all(document, folder)
    return [(each.place, each.line, each.text) for each in document.mistakes]


def sources(*written: str) -> str:
    return "context:\n  sources:\n" + "".join(f"    - {{{each}}}\n" for each in written)


def test_a_config_without_mistakes_has_none(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    text = (
        "upstreams: {local: {url: http://127.0.0.1:8000}}\n"
        "routes: [{path: /a, upstream: local}, {path: /b, upstream: openai}]\n"
        + sources("type: files, path: docs", "type: static, records: [{id: a}]")
        + f"tenants: {{a: {{keys: [{KEY}]}}}}\n"
    )

    assert found(text, tmp_path) == []


def test_certificates_that_are_not_there_are_a_mistake(tmp_path: Path) -> None:
    (make_certificate(tmp_path) / "cert.pem").rename(tmp_path / "ca.pem")
    text = sources("type: http, ca_file: ca.pem", "type: http, id: b, ca_file: no.pem")

    assert found(text, tmp_path) == [
        (
            ("context", "sources", 1, "ca_file"),
            4,
            "is not a file that exists (allowed: a file)",
        )
    ]


@pytest.mark.parametrize(
    ("ledger", "faults"),
    [
        ("{url: 'rediss://h', ca_file: ca.pem}", []),
        ("{url: 'valkeys://h', ca_file: ca.pem}", []),
        ("{url: 'rediss://h', ca_file: no.pem}", ["is not a file that exists"]),
        ("{url: 'rediss://h', ca_file: empty.pem}", ["holds no certificate"]),
        ("{url: 'redis://h', ca_file: ca.pem}", ["is for rediss://"]),
        ("{ca_file: ca.pem}", ["is for rediss://"]),
        ("{url: 'rediss://h'}", []),
    ],
)
def test_a_ledgers_certificates_are_there_and_looked_at(
    tmp_path: Path, ledger: str, faults: list[str]
) -> None:
    (make_certificate(tmp_path) / "cert.pem").rename(tmp_path / "ca.pem")
    (tmp_path / "empty.pem").write_text("")

    told = found(f"ledger: {ledger}", tmp_path)

    assert [place for place, _, _ in told] == [("ledger", "ca_file")] * len(faults)
    for (_, _, words), expected in zip(told, faults, strict=True):
        assert words.startswith(expected)


def test_a_source_whose_package_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = sources("type: mcp, command: [npx], tool: search")
    assert found(text) == []

    # As the import system marks what is not to be found.
    monkeypatch.setitem(sys.modules, "mcp", None)

    assert found(text) == [
        (
            ("context", "sources", 0, "type"),
            3,
            "needs the package mcp (install it: pip install 'deuz-sidecar[mcp]')",
        )
    ]


def test_a_memory_whose_package_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "memory: {url: 'postgres://me:canary@h/d'}"
    assert found(text) == []

    monkeypatch.setitem(sys.modules, "asyncpg", None)

    ((place, _, words),) = found(text)
    assert place == ("memory", "url")
    assert "pip install 'deuz-sidecar[postgres]'" in words


def test_a_route_to_an_upstream_that_is_not_there_names_those_that_are() -> None:
    assert found(
        "upstreams:\n  local: {}\nroutes:\n  - {path: /a, upstream: locl}\n"
    ) == [
        (
            ("routes", 0, "upstream"),
            4,
            "names no configured upstream; did you mean local? "
            "(allowed: anthropic, openai, gemini, ollama, local)",
        )
    ]


def test_a_route_that_an_earlier_one_covers_is_never_reached() -> None:
    text = "routes:\n  - {path: /a}\n  - {path: /a, mode: off}\n"

    assert found(text) == [
        (("routes", 1), 3, "is never reached: line 2 has the same path")
    ]


def test_one_path_may_have_a_rule_for_each_upstream() -> None:
    text = "routes: [{path: /a, upstream: openai}, {path: /a, upstream: gemini}]"

    assert found(text) == []


def test_two_routes_of_one_name_are_a_mistake() -> None:
    text = "routes:\n  - {path: /a, name: x}\n  - {path: /b, name: x}\n"

    assert found(text) == [
        (("routes", 1, "name"), 3, "is given twice, first on line 2")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("type: static, id: docs", "type: static, id: docs"),
        ("type: static", "type: static"),
        ("type: files, id: memory", "type: static"),
        ("type: static, id: My.Docs", "type: static, id: my_docs"),
        ("type: static, kind: rag", "type: files"),
    ],
)
def test_two_sources_that_metrics_cannot_tell_apart_are_a_mistake(
    first: str, second: str
) -> None:
    ((place, line, text),) = found(sources(first, second))

    assert place == ("context", "sources", 1, "id")
    assert line == 4
    assert text.startswith("is the id of a second source, first on line 3")


def test_two_sources_on_one_line_are_told_apart_by_id_too() -> None:
    text = "context: {sources: [{type: static}, {type: static}]}"

    assert len(found(text)) == 1


def test_two_records_of_one_id_are_a_mistake_within_a_source_only() -> None:
    records = "records: [{id: a}, {id: b}, {id: a}]"

    assert found(sources(f"type: static, {records}", "type: files, id: x")) == [
        (
            ("context", "sources", 0, "records", 2, "id"),
            3,
            "is given twice, first on line 3",
        )
    ]


def test_a_folder_that_does_not_exist_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert [
        text for _, _, text in found(sources("type: files, path: nowhere"), tmp_path)
    ] == ["is not a folder that exists (allowed: a folder)"]
    assert len(found(sources("type: files, path: file"), tmp_path)) == 1


def test_two_sources_over_one_folder_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "link").symlink_to("docs")
    text = sources(
        "type: files, id: a, path: docs", f"type: files, id: b, path: {tmp_path}/link"
    )

    assert found(text, tmp_path) == [
        (
            ("context", "sources", 1, "path"),
            4,
            "is the folder of a second source, first on line 3",
        )
    ]


def test_shares_that_add_up_to_more_than_all_are_a_mistake() -> None:
    assert found("context: {budget: {shares: {memory: 0.7, rag: 0.31}}}") == [
        (
            ("context", "budget", "shares"),
            1,
            "add up to 1.01 (allowed: 1 or less together)",
        )
    ]


def test_shares_are_added_exactly() -> None:
    shares = "{memory: 0.1, rag: 0.2, transcript: 0.3, skills: 0.4}"

    assert found(f"context: {{budget: {{shares: {shares}}}}}") == []


def test_a_key_of_two_tenants_is_a_mistake_that_does_not_show_the_key() -> None:
    text = f"tenants:\n  a: {{keys: [{KEY}]}}\n  b: {{keys: [{KEY}]}}\n"

    assert found(text) == [
        (("tenants", "b", "keys", 0), 3, "is already a key of tenant a")
    ]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("admin: {listen: '127.0.0.1:4141'}", ("admin", "listen")),
        ("listen: 127.0.0.1:4142", ("admin", "listen")),
        ("upstreams: {a: {url: 'http://localhost:4141'}}", ("upstreams", "a", "url")),
        (
            "listen: 127.0.0.1:80\nupstreams: {a: {url: 'http://127.0.0.1/v1'}}",
            ("upstreams", "a", "url"),
        ),
    ],
)
def test_addresses_that_meet_are_a_mistake(text: str, place: Place) -> None:
    assert [each for each, _, _ in found(text)] == [place]


@pytest.mark.parametrize(
    "text",
    [
        "listen: h:0\nadmin: {listen: 'h:0'}",
        "listen: nowhere\nadmin: {listen: '127.0.0.1:4141'}",
        "upstreams: {a: {url: 'http://[::1'}, b: {url: [x]}, c: x}",
        "upstreams: {a: {url: 'https://127.0.0.1'}}",
    ],
)
def test_addresses_that_do_not_meet_or_are_not_whole_pass(text: str) -> None:
    assert found(text) == []


def test_an_answer_longer_than_the_window_is_a_mistake() -> None:
    text = "models: {m: {context_window: 10, max_output_tokens: 11}, n: {x: y}}"

    assert [place for place, _, _ in found(text)] == [
        ("models", "m", "max_output_tokens")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "x",
        "routes: x\ncontext: y\nupstreams: []\ntenants: [a]\nmodels: x\nadmin: x\n",
        "routes: [x, [y]]\ncontext: {sources: [x], budget: {shares: x}}\n",
        "context: {sources: [{id: [a], type: {b: c}, records: {d: e}}]}\n",
        "context: {budget: {shares: {memory: x, rag: nan, skills: [1]}}}\n",
        "tenants: {a: x, b: {keys: x}, c: {keys: [[x]]}}\n",
    ],
)
def test_malformed_parts_are_passed_over(text: str) -> None:
    assert found(text) == []


def test_what_is_already_blamed_is_not_blamed_again() -> None:
    document = read_document("routes: [{path: /a, upstream: nowhere}]", {})
    document.blame(("routes", 0, "upstream"), "is wrong already")

    check_all(document, Path())

    assert len(document.mistakes) == 1


def test_the_memory_store_is_one_source() -> None:
    static = "type: static, id: s, records: []"

    told = found(sources("type: store, id: a", static, "type: store"))

    assert [text for _, _, text in told] == [
        "is a second source over the one memory store, first on line 3"
    ]
