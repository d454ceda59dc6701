from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from deuz_compiler.records.wording import field_fault


class Source(msgspec.Struct, forbid_unknown_fields=True):
    kind: str


Words = Literal["yes", "no"]
CASES: list[tuple[object, Any, str]] = [
    ("1", int, "x: is not a whole number"),
    ("1", int | None, "x: is not a whole number or null"),
    (1, str, "x: is not text"),
    (1, bool, "x: is not true or false"),
    ([1.5, "a"], tuple[float, ...], "x[1]: is not a number"),
    ("a", tuple[int, ...], "x: is not a list"),
    (1, Source, "x: is not an object"),
    ([{}], tuple[Source, ...], "x[0]: kind is missing"),
    ([{"kin": ""}], tuple[Source, ...], "x[0]: unknown field kin"),
    (-1, Annotated[int, Meta(ge=0)], "x: is too small (allowed: 0 or more)"),
    (9, Annotated[int, Meta(le=8)], "x: is too large (allowed: 8 or less)"),
    (
        "",
        Annotated[str, Meta(min_length=1)],
        "x: is too short (allowed: 1 characters or more)",
    ),
    (
        [1, 2],
        Annotated[tuple[int, ...], Meta(max_length=1)],
        "x: is too long (allowed: 1 items or less)",
    ),
    (" ", Annotated[str, Meta(pattern=r"\S")], "x: is blank"),
    (
        "!",
        Annotated[str, Meta(pattern=r"\A[a-z]+\Z")],
        "x: is of another form (allowed: [a-z]+)",
    ),
    ("canary", Words, "x: is not one of the allowed words (allowed: yes, no)"),
    (
        ["canary"],
        tuple[Words, ...],
        "x[0]: is not one of the allowed words (allowed: yes, no)",
    ),
]


@pytest.mark.parametrize(("given", "expected", "told"), CASES)
def test_a_fault_says_where_and_what_is_allowed_and_quotes_nothing(
    given: object, expected: Any, told: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(given, expected)

    assert field_fault("x", str(caught.value), expected) == told


def test_what_is_not_known_of_the_decoder_is_not_passed_on() -> None:
    assert field_fault("x", "canary", int) == "x: is not one of the allowed words"
