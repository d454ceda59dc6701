import msgspec
import pytest

from deuz_compiler.canonical import canonical_json, digest_bytes, digest_text


class Point(msgspec.Struct):
    y: int
    x: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("value", "spelling"),
    [
        ({"b": 1, "a": [1.5, None, True]}, b'{"a":[1.5,null,true],"b":1}'),
        (Point(2, ("é",)), '{"x":["é"],"y":2}'.encode()),
    ],
)
def test_value_has_one_spelling(value: object, spelling: bytes) -> None:
    assert canonical_json(value) == spelling


def test_order_of_insertion_does_not_show() -> None:
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})


def test_digest_is_the_well_known_one() -> None:
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

    assert digest_text("abc") == digest_bytes(b"abc") == f"sha256:{known}"


def test_lone_surrogate_has_a_digest_of_its_own() -> None:
    assert digest_text("\ud800") != digest_text("?")
