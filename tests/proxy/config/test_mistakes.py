import pytest
from pydantic import BaseModel, Field, ValidationError

from deuz_proxy.config.mistakes import blame_all
from deuz_proxy.config.model import Config
from deuz_proxy.config.nodes import Document, Place, read_document


def blamed(text: str) -> Document:
    document = read_document(text, {})
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(document.tree)
    blame_all(document, Config, caught.value)
    return document


def only_mistake(text: str) -> tuple[Place, str]:
    (mistake,) = blamed(text).mistakes
    return mistake.place, mistake.text


def test_an_unknown_key_lists_the_known_ones_and_the_nearest() -> None:
    place, text = only_mistake("context: {refresh: {min_stepz: 1}}")

    assert place == ("context", "refresh", "min_stepz")
    assert text == (
        "is not a known key; did you mean min_steps? "
        "(allowed: min_steps, max_passes, candidates_per_source, deadline_ms, "
        "rest_after, rest_seconds)"
    )


def test_known_keys_are_found_below_lists_maps_and_types() -> None:
    static = "context: {sources: [{type: static, records: [{id: a, text: b, c: d}]}]}"

    assert (
        "min_score"
        in only_mistake("context: {sources: [{type: files, path: x, scope: y}]}")[1]
    )
    assert "source_kinds" in only_mistake(static)[1]
    assert "placement" in only_mistake("upstreams: {a: {url: http://h, x: y}}")[1]
    assert (
        "allowed: path, upstream, mode" in only_mistake("routes: [{path: /, x: y}]")[1]
    )


def test_the_step_for_a_type_is_no_part_of_the_place() -> None:
    place, _ = only_mistake(
        "context: {sources: [{type: static, records: [{id: a, text: b, priority: c}]}]}"
    )

    assert place == ("context", "sources", 0, "records", 0, "priority")


def test_a_section_that_breaks_its_own_rule_is_blamed_without_its_type() -> None:
    both = "{type: mcp, command: [npx], url: 'http://m.example/mcp', tool: search}"

    assert only_mistake(f"context: {{sources: [{both}]}}") == (
        ("context", "sources", 0),
        "needs a command or a url (allowed: exactly one)",
    )


def test_a_key_that_breaks_its_rule_is_blamed_itself() -> None:
    assert only_mistake("upstreams: {'a/b': {url: http://h}}")[0] == (
        "upstreams",
        "a/b",
    )
    assert only_mistake("context: {budget: {shares: {foo: 0.1}}}") == (
        ("context", "budget", "shares", "foo"),
        "is not one of the allowed values (allowed: memory, rag, transcript, skills)",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("routes: [{mode: off}]", "is required"),
        (
            "on_error: perhaps",
            "is not one of the allowed values (allowed: open, closed)",
        ),
        (
            "context: {sources: [{type: sql}]}",
            "has an unknown type "
            "(allowed: static, files, http, store, mcp, transcript, skills)",
        ),
        (
            "context: {sources: [{id: a}]}",
            "needs a type "
            "(allowed: static, files, http, store, mcp, transcript, skills)",
        ),
        (
            "context: {refresh: {max_passes: many}}",
            "is not a whole number (allowed: 0, 1, 2, …)",
        ),
        (
            "context: {refresh: {max_passes: 1.5}}",
            "is not a whole number (allowed: 0, 1, 2, …)",
        ),
        (
            "context: {refresh: {max_passes: [1]}}",
            "is not a whole number (allowed: 0, 1, 2, …)",
        ),
        (
            "context: {refresh: {max_passes: 0}}",
            "is too small (allowed: 1 or more)",
        ),
        (
            "context: {refresh: {max_passes: 5000}}",
            "is too large (allowed: 1000 or less)",
        ),
        (
            "context: {budget: {ratio: half}}",
            "is not a number (allowed: 0, 0.25, 1, …)",
        ),
        (
            "context: {budget: {ratio: [1]}}",
            "is not a number (allowed: 0, 0.25, 1, …)",
        ),
        (
            "context: {budget: {ratio: nan}}",
            "is not a number (allowed: 1, 2.5, …)",
        ),
        ("overflow: {compact_at: 0}", "is too small (allowed: above 0)"),
        ("overflow: {recover: perhaps}", "is not a switch (allowed: true, false)"),
        ("ledger: {ttl_seconds: long}", "is not a number (allowed: 1, 2.5, …)"),
        ("listen: [a]", "is not text (allowed: one value)"),
        (
            "context: {sources: [{type: files, path: [a]}]}",
            "is not a path (allowed: one value)",
        ),
        ("routes: {a: b}", "is not a list (allowed: [a, b])"),
        ("upstreams: [a]", "is not a mapping (allowed: key: value)"),
        ("ledger: [a]", "is not a mapping (allowed: key: value)"),
        ("scope: {headers: [a, b, c, d, e, f, g, h, i]}", "is too long"),
    ],
)
def test_each_mistake_says_what_is_wrong_and_what_is_allowed(
    text: str, expected: str
) -> None:
    assert only_mistake(text)[1].startswith(expected)


def test_a_text_that_is_not_a_mapping_at_all_is_one_mistake() -> None:
    assert only_mistake("- a") == ((), "is not a mapping (allowed: key: value)")


def test_a_wrong_kind_is_told_once_although_the_id_hangs_on_it() -> None:
    place, _ = only_mistake(
        "context: {sources: [{type: static, kind: x, records: []}]}"
    )

    assert place == ("context", "sources", 0, "kind")


def test_a_value_that_is_already_blamed_is_not_blamed_again() -> None:
    document = blamed(
        "listen: ${GONE}\nadmin: {listen: nowhere}\nroutes: [{path: !x /}]"
    )

    assert [(mistake.line, mistake.text[:15]) for mistake in document.mistakes] == [
        (1, "needs the envir"),
        (3, "has a tag (allo"),
        (2, "is not an addre"),
    ]


def test_no_mistake_repeats_a_value() -> None:
    document = blamed(
        "on_error: canary\nlisten: canary\nroutes: [{path: canary, mode: canary}]\n"
        "ledger: {url: 'nats://canary', max_entries: canary}\n"
        "context: {sources: [{type: canary}], budget: {ratio: canary}}\n"
        "tenants: {acme: {keys: [canary]}}\nadmin: {token: [canary]}\n"
    )

    assert len(document.mistakes) == 10
    assert [m.text for m in document.mistakes if "canary" in m.text] == []


def test_an_error_nobody_foresaw_keeps_its_own_words() -> None:
    class Even(BaseModel):
        number: int = Field(multiple_of=2)

    document = read_document("number: 3", {})
    with pytest.raises(ValidationError) as caught:
        Even.model_validate(document.tree)
    blame_all(document, Even, caught.value)

    assert [mistake.text for mistake in document.mistakes] == [
        "is not valid: input should be a multiple of 2"
    ]
