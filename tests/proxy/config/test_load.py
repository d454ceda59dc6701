from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import SecretStr

from deuz_proxy.config.load import key_path, load_config, parse_config
from deuz_proxy.config.model import Config
from deuz_proxy.errors import ConfigInvalid

# The example of the contract, as a user would copy it.
CONTRACT = """\
listen: 127.0.0.1:4141
admin: {listen: 127.0.0.1:4142, token: ${DEUZ_ADMIN_TOKEN:-}}
upstreams:
  anthropic: {url: https://api.anthropic.com, wire: anthropic}
  local: {url: http://127.0.0.1:8000, wire: openai, placement: part}   # turn | part
routes:                      # first match wins; unmatched paths observe only
  - {path: /v1/messages, upstream: anthropic, mode: compile}
on_error: open               # open | closed; also per route
tenants: {acme: {keys: ["sha256:DIGEST"]}}
scope: {headers: [x-deuz-scope], required: false}
context:
  budget: {ratio: 0.25, max_tokens: 8192, working_memory_tokens: 1024,
           shares: {memory: 0.4, rag: 0.4, transcript: 0.1, skills: 0.1}}
  refresh: {min_steps: 1, max_passes: 8, candidates_per_source: 20, deadline_ms: 300}
  holdout: 0.0
  sources:
    - {id: docs, kind: rag, type: files, path: ./docs, required: false}
    - {id: rules, kind: memory, type: static,
       records: [{id: r1, text: "…", mandatory: true}]}
overflow: {recover: true, compact_at: null, keep_recent_steps: 4,
           layers: [prune-tool-results, prune-reasoning, summarize],
           summarize: {model: null}}
ledger: {url: memory://, max_entries: 100000, ttl_seconds: 86400}
models: {my-model: {context_window: 128000, max_output_tokens: 8000}}
telemetry: {otlp: {endpoint: null, protocol: http/protobuf},
            content: false, propagate: false}
limits: {max_body_bytes: 67108864}
""".replace("DIGEST", "ab" * 32)


def parse(
    text: str, environ: Mapping[str, str] | None = None, folder: Path = Path()
) -> Config:
    return parse_config(text, name="f.yaml", folder=folder, environ=environ or {})


def mistakes(text: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    nowhere = Path("/nonexistent")
    with pytest.raises(ConfigInvalid) as caught:
        parse(text, environ, nowhere)
    return caught.value.mistakes


def test_without_a_file_the_defaults_hold() -> None:
    assert load_config(None, {}) == Config()


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text("# nothing yet\n")

    assert load_config(tmp_path / "f.yaml", {}) == Config()


def test_the_example_of_the_contract_loads_and_differs_from_defaults_where_it_says(
    tmp_path: Path,
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "f.yaml").write_text(CONTRACT)

    config = load_config(tmp_path / "f.yaml", {})

    same = {"listen", "admin", "on_error", "scope", "overflow", "ledger", "limits"}
    same |= {"telemetry"}
    assert config.model_dump(include=same) == Config().model_dump(include=same)
    assert config.context.budget == Config().context.budget
    assert config.context.refresh == Config().context.refresh
    assert config.upstreams["local"].placement == "part"
    assert config.routes[0].mode == "compile"
    assert config.models["my-model"].context_window == 128_000
    assert [source.id for source in config.context.sources] == ["docs", "rules"]
    assert config.context.sources[0].model_dump()["path"] == tmp_path / "docs"


def test_the_contracts_own_text_parses_but_for_its_placeholders(
    reference: Path,
) -> None:
    contract = (reference / "contract.md").read_text()
    text = contract.split("```yaml\n")[1].split("```")[0].replace("sha256:…", "x")

    told = [line.split(": ")[1] for line in mistakes(text)]

    assert sorted(told) == [
        "context.sources[0].path",
        "tenants.acme.keys[0]",
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_lines() -> None:
    text = (
        "listen: nowhere\n"
        "routes:\n"
        "  - {path: /v1/messages, upstream: anthropc, mode: compil}\n"
        "on_eror: open\n"
        "context:\n"
        "  budget: {max_tokens: many}\n"
        "  sources:\n"
        "    - {type: files, path: ./nope}\n"
        "    - {type: past}\n"
        "ledger: {url: '${LEDGER}'}\n"
        "on_eror: closed\n"
    )

    assert mistakes(text) == (
        "f.yaml:1: listen: is not an address (allowed: HOST:PORT, [IPV6]:PORT)",
        "f.yaml:3: routes[0].mode: is not one of the allowed values "
        "(allowed: off, observe, shadow, compile)",
        "f.yaml:3: routes[0].upstream: names no configured upstream; did you mean "
        "anthropic? (allowed: anthropic, openai, gemini, ollama)",
        "f.yaml:4: on_eror: is not a known key; did you mean on_error? (allowed: "
        "listen, admin, upstreams, proxy, routes, on_error, tenants, scope, context, "
        "overflow, ledger, memory, models, telemetry, limits)",
        "f.yaml:6: context.budget.max_tokens: is not a whole number "
        "(allowed: 0, 1, 2, …)",
        "f.yaml:8: context.sources[0].path: is not a folder that exists "
        "(allowed: a folder)",
        "f.yaml:9: context.sources[1]: has an unknown type "
        "(allowed: static, files, http, store, mcp, transcript, skills)",
        "f.yaml:10: ledger.url: needs the environment variable LEDGER",
        "f.yaml:11: on_eror: is given twice, first on line 4",
    )


def test_a_syntax_error_names_line_and_column() -> None:
    (line,) = mistakes("listen: [a\nadmin: b\n")

    assert line.startswith("f.yaml:2:6: not YAML: ")


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read: no such file"):
        load_config(tmp_path / "f.yaml", {})
    with pytest.raises(ConfigInvalid, match="cannot be read: is a directory"):
        load_config(tmp_path, {})


def test_a_file_that_is_not_text_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"listen: h:1\nadmin: \xff\n")

    with pytest.raises(ConfigInvalid) as caught:
        load_config(path, {})

    assert caught.value.mistakes == (f"{path}:2: is not UTF-8 text",)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfon_error: closed\r\n")

    assert load_config(path, {}).on_error == "closed"


def test_numbers_and_switches_may_come_from_the_environment() -> None:
    config = parse(
        "listen: 127.0.0.1:${PORT:-9}\noverflow: {recover: ${RECOVER}}\n"
        "limits: {max_body_bytes: ${BYTES}}\n",
        {"RECOVER": "no", "BYTES": "2048", "PORT": ""},
    )

    assert config.listen == "127.0.0.1:9"
    assert not config.overflow.recover
    assert config.limits.max_body_bytes == 2048


def test_a_secret_of_digits_is_still_text() -> None:
    config = parse("admin: {token: ${T}}\n", {"T": "12345"})

    assert config.admin.token == SecretStr("12345")


def test_a_secret_from_the_environment_is_in_no_mistake() -> None:
    told = mistakes("listen: ${T}\nadmin: {listen: ${T}}\nx: ${T}\n", {"T": "hunter2"})

    assert len(told) == 3
    assert "hunter2" not in "".join(told)


@pytest.mark.parametrize("text", ["", "admin: {listen: 'h:1'}", "admin: {token: ''}"])
def test_the_admin_token_comes_from_its_variable_when_the_file_is_silent(
    text: str,
) -> None:
    token = parse(text, {"DEUZ_ADMIN_TOKEN": "t"}).admin.token

    assert token == (None if "token" in text else SecretStr("t"))


def test_the_admin_token_of_the_file_comes_first() -> None:
    config = parse("admin: {token: mine}", {"DEUZ_ADMIN_TOKEN": "t"})

    assert config.admin.token == SecretStr("mine")


@pytest.mark.parametrize("text", ["admin: x\n", "- x\n"])
def test_a_token_in_the_environment_does_not_hide_a_mistake(text: str) -> None:
    assert "mapping" in mistakes(text, {"DEUZ_ADMIN_TOKEN": "t"})[0]


def test_a_key_path_quotes_what_is_not_a_plain_word() -> None:
    assert key_path(("context", "sources", 0, "id")) == "context.sources[0].id"
    assert key_path(("models", "gpt-4.1", "x")) == 'models."gpt-4.1".x'
    assert key_path(()) == ""
