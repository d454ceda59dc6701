"""The notation of rules: what stands for what, and that nothing grows without bound."""

import re

import pytest

from deuz_compiler.wires.error_words import WORDS, Rule, make_rule
from deuz_compiler.wires.look_alike_rules import QUOTA_CODES
from deuz_compiler.wires.overflow_rules import OVERFLOW_CODES, TEXT_RULES


def test_placeholder_stands_for_the_words_of_its_name() -> None:
    rule = make_rule("near", None, r"a<near>b")

    assert rule.pattern.search("a" + 30 * "-" + "b")
    assert not rule.pattern.search("a" + 31 * "-" + "b")


def test_gap_never_crosses_a_line() -> None:
    assert not make_rule("gap", None, r"a<gap>b").pattern.search("a\nb")


def test_any_one_of_the_patterns_is_enough() -> None:
    rule = make_rule("either", "input", r"^a", r"z$")

    assert [bool(rule.pattern.search(text)) for text in ("ab", "yz", "mm")] == [
        True,
        True,
        False,
    ]


def test_unknown_placeholder_is_a_mistake() -> None:
    with pytest.raises(KeyError, match="nonsense"):
        make_rule("wrong", None, r"<nonsense>")


@pytest.mark.parametrize("text", ["context window", "max_model_len", "token limit"])
def test_window_has_many_names(text: str) -> None:
    assert re.search(WORDS["window"], text)


@pytest.mark.parametrize(
    "rule", [*TEXT_RULES, OVERFLOW_CODES, QUOTA_CODES], ids=lambda rule: rule.name
)
def test_no_pattern_repeats_without_a_bound(rule: Rule) -> None:
    """One unbounded gap makes the cost grow with the square of an error text."""
    assert re.findall(r"(?<!\\)[*+]|\\[wdsWDS][*+]", rule.pattern.pattern) == []
