"""Everything public has a line in the docs, and every line speaks of what there is."""

import inspect
import re
from pathlib import Path

import pytest
import yaml

import deuz_compiler.errors
import deuz_proxy.errors
from deuz_compiler import NotLifted, lift
from deuz_compiler.errors import CompilerError
from deuz_proxy.config.model import Config
from deuz_proxy.edge.admin import AdminParts, make_admin
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe import catalog, genai, names, vocabulary
from deuz_proxy.running import base_urls
from deuz_proxy.sinks.feed import Feed
from deuz_testing.docs import remade
from deuz_testing.docs_fields import list_rows, list_sections
from deuz_testing.line import Told, make_config, make_runtime

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.glob("*.md")), *sorted((DOCS / "sources").glob("*.md"))]

WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "prefix-verdicts.md": (
        vocabulary.VERDICTS,
        vocabulary.SEGMENTS,
        vocabulary.OWNERS,
        vocabulary.CAUSES,
        ("index", "offset", "segment", "lost_tokens"),
        ("expected_tokens", "missed_tokens"),
    ),
    "reasons.md": (
        vocabulary.RECORD_REASONS,
        vocabulary.REFRESH_REASONS,
        vocabulary.FALLBACKS,
        vocabulary.PASSTHROUGHS,
        vocabulary.OUTCOMES,
        vocabulary.USAGE_STATUSES,
        vocabulary.LEDGER_OPS,
        vocabulary.LEDGER_STATUSES,
    ),
    "overflow.md": (
        vocabulary.OVERFLOW_OUTCOMES,
        tuple(stage for stage in vocabulary.OVERFLOW_STAGES if stage != "preflight"),
        vocabulary.LAYERS,
    ),
    "sources/index.md": (vocabulary.SOURCE_STATUSES,),
}
"""What each page explains, in the first column of its tables: these words, all of
them, and no others. Nothing overflows in `preflight` before compacting ahead exists."""


def read(name: str) -> str:
    return (DOCS / name).read_text()


def first_column(text: str) -> set[str]:
    """Return the words in backticks of the first cell of every row."""
    cells = re.findall(r"^ *\| ([^|]+) \|", text, re.M)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def section(text: str, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"no heading {heading}"
    return found[1]


def list_fields() -> set[str]:
    """Return the names of all fields, by the schema: the docs have another way."""
    schema = Config.model_json_schema()
    sections = (schema, *schema["$defs"].values())
    return {name for each in sections for name in each.get("properties", ())}


def list_codes() -> set[str]:
    modules = (deuz_compiler.errors, deuz_proxy.errors)
    kinds = [
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
    ]
    return {
        kind.code for kind in kinds if issubclass(kind, CompilerError | SidecarError)
    }


def list_admin_paths() -> set[str]:
    app = make_admin(
        AdminParts(
            feed=Feed(generation="docs"),
            metrics=lambda _: (b"", ""),
            readiness=tuple,
            config=dict,
            runtime=lambda: make_runtime(make_config(), Told()),
        )
    )
    return set(app.routes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_generated_parts_are_what_the_code_says(page: Path) -> None:
    assert page.read_text() == remade(page.read_text()), "run `make docs`"


def test_every_config_field_has_a_row_in_configuration() -> None:
    rows = first_column(section(read("configuration.md"), "Every key"))

    assert list_fields() - rows == set(), "run `make docs`"


def test_a_key_that_nothing_reads_is_named_as_one_without_effect() -> None:
    text = section(read("configuration.md"), "Every key").partition("<!--")[0]
    named = set(re.findall(r"`([\w.]+\.[a-z_]+)`[,.]", text))
    keys = {
        f"{path.strip('`')}.{row.key}"
        for path, model in list_sections(Config)
        for row in list_rows(model)
        if row.key != "type"
    }

    # A key is seen to be unread only where its name is nobody else's.
    unread = {key for key in keys if not is_read(key.rpartition(".")[2])}
    revived = {key for key in named if is_read(".".join(key.split(".")[-2:]))}

    assert unread - named == set(), "name these at the head of `Every key`"
    assert revived == set(), "these do something now: take them off the list"
    assert named - keys == set()


def is_read(attribute: str) -> bool:
    package = ROOT / "proxy/deuz_proxy"
    declared = [package / "config" / name for name in ("model.py", "context.py")]
    return any(
        re.search(rf"\.{re.escape(attribute)}\b", path.read_text())
        for path in package.rglob("*.py")
        if path not in declared
    )


def test_every_metric_has_a_row_in_metrics() -> None:
    rows = first_column(section(read("metrics.md"), "Metrics"))

    assert {metric.name for metric in catalog.METRICS} - rows == set()


def test_words_that_metrics_calls_not_yet_said_are_of_their_label_and_unsaid() -> None:
    table = section(read("metrics.md"), "Metrics").partition("| label | not yet |")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", table, re.M)
    said = "\n".join(
        path.read_text()
        for path in (ROOT / "proxy/deuz_proxy").rglob("*.py")
        if "config" not in path.parts and path.name != "vocabulary.py"
    )
    # Common words, which other things have for a name.
    other = {"fault", "observe", "admin"}

    told = [(label, w) for label, cell in rows for w in re.findall(r"`([^`]+)`", cell)]

    known = {
        (label.name, word)
        for metric in catalog.METRICS
        for label in metric.labels
        for word in label.words or ()
    }
    assert len(told) > 10
    assert set(told) - known == set()
    assert [w for _, w in told if w not in other and f'"{w}"' in said] == []


def test_every_name_that_leaves_over_otlp_is_in_metrics() -> None:
    text = read("metrics.md")
    told = {
        *names.SERVER_ATTRIBUTES,
        *names.CLIENT_ATTRIBUTES,
        *names.COMPILE_ATTRIBUTES,
        *names.VERDICT_ATTRIBUTES,
        *names.OVERFLOW_ATTRIBUTES,
        *names.COMPACTION_ATTRIBUTES,
        names.COMPILE_SPAN,
        names.VERDICT_EVENT,
        names.OVERFLOW_EVENT,
        names.COMPACTION_EVENT,
        *(metric.otlp for metric in (*genai.NEWEST, *genai.OLDER)),
    }

    assert {name for name in told if f"`{name}`" not in text} == set()


def test_metrics_speaks_of_no_attribute_that_does_not_leave() -> None:
    text = section(read("metrics.md"), "Spans").partition("### Span events")[0]
    known = {
        *names.SERVER_ATTRIBUTES,
        *names.CLIENT_ATTRIBUTES,
        *names.COMPILE_ATTRIBUTES,
        names.COMPILE_SPAN,
        f"{names.SOURCE_PREFIX}ID.selected",
    }

    shown = {word for word in first_column(text) if re.fullmatch(r"\w+\.[\w.]+", word)}

    assert shown - known == set()


@pytest.mark.parametrize("page", sorted(WORDS))
def test_page_explains_the_words_of_its_sets_and_no_others(page: str) -> None:
    known = {word for words in WORDS[page] for word in words}
    other = {"operation", "static", "files"}

    shown = first_column(read(page)) - other

    assert known - shown == set(), f"give these a row in docs/{page}"
    assert shown - known == set(), f"nothing says these any more: docs/{page}"


def test_every_error_code_has_a_row_in_errors() -> None:
    rows = first_column(read("errors.md"))

    missing = {*list_codes(), *vocabulary.FAULT_CODES} - rows

    assert missing - {vocabulary.OTHER} == set(), "say what causes it and what to do"


def test_every_status_in_errors_is_the_one_that_is_sent() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", read("errors.md"), re.M)
    sent = {
        kind.code: kind.status
        for _, kind in inspect.getmembers(deuz_proxy.errors, inspect.isclass)
        if issubclass(kind, SidecarError)
    }

    shown = {code: int(status) for code, status in rows if code in sent}

    assert shown == {code: sent[code] for code in shown}
    assert len(shown) >= 6


def test_every_place_of_a_fault_is_in_errors() -> None:
    text = section(read("errors.md"), "What only an operator sees")

    assert {w for w in vocabulary.FAULT_PLACES if f"`{w}`" not in text} == set()


def test_errors_of_the_admin_address_are_all_in_errors() -> None:
    code = "\n".join(
        path.read_text() for path in (ROOT / "proxy/deuz_proxy/edge").glob("admin*.py")
    )
    rows = re.findall(
        r"^\| `(\w+)` \| (\d+)",
        section(read("errors.md"), "At the admin address"),
        re.M,
    )

    sent = re.findall(r"(?:refuse|Refused)\(\s*(\d+),\s*\"(\w+)\"", code)

    assert {(name, status) for status, name in sent} == set(rows)


def test_paths_of_the_admin_address_are_all_in_operations_and_exist() -> None:
    known = list_admin_paths()
    table = first_column(section(read("operations.md"), "The admin address"))
    everywhere = "\n".join(page.read_text() for page in PAGES)

    shown = {path for path in table if path.startswith("/")}
    spoken_of = set(re.findall(r"/api/v1/[a-z-]+(?:\.json)?(?:/\{\w+\})?", everywhere))

    assert shown == known - {"/page/{name}"}
    # An example gives a value where a path has a name: it is spoken of by its start.
    starts = {path.partition("/{")[0] for path in known}
    assert spoken_of - known - starts == set()


def test_every_alert_has_a_row_in_operations_with_its_severity_and_panel() -> None:
    rows = re.findall(
        r"^\| `(Deuz\w+)` \| (\w+) \|.*\| ([^|]+) \|$", read("operations.md"), re.M
    )
    rules = ROOT / "dashboards/rules/deuz-sidecar.rules.yaml"
    groups = yaml.safe_load(rules.read_text())["groups"]

    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]

    assert {
        (rule["alert"], rule["labels"]["severity"], rule["annotations"]["panel"])
        for rule in alerts
    } == set(rows)


def test_bodies_that_are_understood_are_those_that_the_docs_name() -> None:
    bodies = {
        "/v1/messages": ("anthropic", b'{"model":"m","messages":[]}'),
        "/chat/completions": ("openai_chat", b'{"model":"m","messages":[]}'),
        "/responses": ("openai_responses", b'{"model":"m","input":[]}'),
        "/models/NAME:generateContent": ("gemini", b'{"contents":[]}'),
    }
    rows = re.findall(
        r"^\| `…(/\S+)`[^|]*\| (yes|no) \|", read("the-way-of-a-request.md"), re.M
    )

    understood = {path: is_lifted(*bodies[path]) for path in bodies}

    assert {path: answer == "yes" for path, answer in rows} == understood


def is_lifted(wire: str, body: bytes) -> bool:
    try:
        lift(wire, body)
    except NotLifted:
        return False
    return True


def test_variables_that_exec_sets_are_in_clients() -> None:
    text = read("clients.md")

    assert [name for name in base_urls("") if f"`{name}`" not in text] == []


def test_every_page_is_in_the_index_of_its_folder_and_the_indexes_in_the_first() -> (
    None
):
    missing = [
        str(page.relative_to(DOCS))
        for page in PAGES
        if f"({page.name})" not in (page.parent / "index.md").read_text()
    ]

    assert missing == ["index.md", "sources/index.md"]
    assert "(sources/index.md)" in read("index.md")


def test_every_relative_link_of_the_docs_leads_somewhere() -> None:
    pages = [*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "dashboards/README.md"]

    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
        if "://" not in target and not leads_somewhere(page, target)
    ]

    assert broken == []


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    other = page.parent / name if name else page
    if not other.exists() or not anchor:
        return other.exists()
    headings = re.findall(r"^#+ (.+)$", other.read_text(), re.M)
    return anchor in {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


def test_decision_records_are_numbered_without_gaps_and_short() -> None:
    records = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in records]

    assert numbers == list(range(1, len(records) + 1))
    assert [p.name for p in records if len(p.read_text().splitlines()) > 40] == []


def test_changelog_has_unreleased_changes_on_top() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)

    assert headings[0] == "[Unreleased]"
