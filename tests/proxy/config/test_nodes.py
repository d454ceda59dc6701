import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.config.nodes import Document, read_document


def told(document: Document) -> list[tuple[int, str]]:
    return [(mistake.line, mistake.text) for mistake in document.mistakes]


def test_scalars_stay_text_until_a_field_types_them() -> None:
    document = read_document("a: 42\nb: no\nc: 0.25\nd: '42'\n", {})

    assert document.tree == {"a": "42", "b": "no", "c": "0.25", "d": "42"}


def test_a_null_counts_as_not_given() -> None:
    document = read_document("a: null\nb: ~\nc:\nd: ''\ne: [1, null]\n", {})

    assert document.tree == {"d": "", "e": ["1", None]}


def test_an_empty_text_has_no_tree_and_no_mistake() -> None:
    document = read_document("# nothing\n", {})

    assert document.tree is None
    assert document.mistakes == []


def test_every_value_knows_its_line() -> None:
    document = read_document("a:\n  b:\n    - c: 1\n    -\n      c: 2\n", {})

    assert document.line(("a",)) == 1
    assert document.line(("a", "b")) == 2
    assert document.line(("a", "b", 0, "c")) == 3
    assert document.line(("a", "b", 1, "c")) == 5


def test_a_place_that_is_not_there_has_the_line_of_what_is_around_it() -> None:
    document = read_document("a:\n  b: 1\n", {})

    assert document.line(("a", "x", "y")) == 1
    assert document.line(("x",)) == 1
    assert document.line(()) == 1


def test_values_are_found_by_place() -> None:
    document = read_document("a: [{b: 1}]\n", {})

    assert document.at(("a", 0, "b")) == "1"
    assert document.at(("a", 1, "b")) is None
    assert document.at(("a", "b")) is None
    assert document.at(()) == {"a": [{"b": "1"}]}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${HOST}:80", "h:80"),
        ("${HOST:-x}", "h"),
        ("${ABSENT:-x y, z}", "x y, z"),
        ("${EMPTY:-x}", "x"),
        ("'${ABSENT:-}'", ""),
        ("$${HOST}", "${HOST}"),
        ('"a ${HOST} b ${ABSENT:-c}"', "a h b c"),
        ('"${ABSENT:-\\"q\\"}"', '"q"'),
        ("a$b", "a$b"),
    ],
)
def test_references_are_replaced_before_typing(written: str, value: str) -> None:
    environ = {"HOST": "h", "EMPTY": ""}

    block = read_document(f"a: {written}\n", environ)
    flow = read_document(f"a: {{b: {written}}}\n", environ)

    assert (block.tree, block.mistakes) == ({"a": value}, [])
    if not written.startswith("${ABSENT:-x y"):
        assert (flow.tree, flow.mistakes) == ({"a": {"b": value}}, [])


def test_a_default_with_a_comma_is_one_value_inside_braces_too() -> None:
    document = read_document("a: {b: ${ABSENT:-x, y}}\n", {})

    assert document.tree == {"a": {"b": "x, y"}}


def test_an_empty_reference_counts_as_not_given() -> None:
    document = read_document("admin: {listen: h, token: ${ABSENT:-}}\n", {})

    assert document.tree == {"admin": {"listen": "h"}}


def test_a_value_of_the_environment_is_not_read_as_yaml_or_reference() -> None:
    document = read_document("a: ${V}\n", {"V": "{b: ${OTHER}} # c"})

    assert document.tree == {"a": "{b: ${OTHER}} # c"}


def test_an_unset_variable_is_a_mistake_on_its_line_and_the_value_is_left_out() -> None:
    document = read_document("a: 1\nb: x${GONE}${ALSO}\n", {})

    assert document.tree == {"a": "1"}
    assert told(document) == [
        (2, "needs the environment variable GONE"),
        (2, "needs the environment variable ALSO"),
    ]


def test_a_broken_reference_is_a_mistake() -> None:
    document = read_document("a: '${1X}'\n", {})

    assert [line for line, text in told(document) if "broken reference" in text] == [1]


def test_keys_are_not_replaced() -> None:
    document = read_document("${HOST}: 1\n", {"HOST": "h"})

    assert document.tree == {"${HOST}": "1"}


def test_a_key_given_twice_is_told_with_both_lines_and_the_first_stays() -> None:
    document = read_document("a: 1\nb: 2\na: 3\n", {})

    assert document.tree == {"a": "1", "b": "2"}
    assert told(document) == [(3, "is given twice, first on line 1")]


def test_a_key_that_is_not_a_word_is_a_mistake() -> None:
    document = read_document("? [1, 2]\n: x\nb: 2\n", {})

    assert document.tree == {"b": "2"}
    assert told(document) == [(1, "has a key that is not a word")]


def test_a_tag_is_refused_and_nothing_is_made_of_it() -> None:
    document = read_document("a: !!python/object/apply:os.system ['true']\n", {})

    assert document.tree == {}
    assert told(document) == [(1, "has a tag (allowed: plain values)")]


def test_a_broken_item_keeps_the_place_of_later_ones() -> None:
    document = read_document("a: [1, !x 2, 3]\n", {})

    assert document.tree == {"a": ["1", None, "3"]}


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a: [1,\nb: 2\n", 3, 1), ("a: b: c\n", 1, 5), ("a: 1\n\tb: 2\n", 2, 1)],
)
def test_a_syntax_error_names_line_and_column(
    text: str, line: int, column: int
) -> None:
    (mistake,) = read_document(text, {}).mistakes

    assert (mistake.line, mistake.column) == (line, column)
    assert mistake.text.startswith("not YAML: ")


def test_a_character_that_yaml_does_not_allow_names_its_line() -> None:
    (mistake,) = read_document("a: 1\nb: \x00\n", {}).mistakes

    assert mistake.line == 2


def test_two_documents_in_one_file_are_a_mistake() -> None:
    (mistake,) = read_document("a: 1\n---\nb: 2\n", {}).mistakes

    assert "document" in mistake.text


def test_aliases_are_followed() -> None:
    document = read_document("a: &x {k: 1}\nb: *x\n", {})

    assert document.tree == {"a": {"k": "1"}, "b": {"k": "1"}}


def test_a_bomb_of_aliases_ends_early_with_one_mistake() -> None:
    layers = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    layers += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 12)]

    document = read_document("\n".join(layers), {})

    assert document.tree is None
    assert [text for _, text in told(document)] == [
        "is too many values, or nested too deeply"
    ]


def test_an_alias_to_itself_is_a_mistake_not_a_loop() -> None:
    document = read_document("a: &a [*a]\n", {})

    assert len(document.mistakes) == 1


def test_nesting_without_end_is_a_mistake() -> None:
    document = read_document("[" * 5000, {})

    assert len(document.mistakes) == 1


@given(st.text())
def test_no_text_raises(text: str) -> None:
    document = read_document(text, {})

    assert all(mistake.line >= 1 for mistake in document.mistakes)
