from deuz_proxy.demo.provider.exchange import Refusal
from deuz_proxy.demo.provider.fields import (
    compact,
    first_refusal,
    mapping,
    numbered,
    objects,
    whole,
    word,
)


def test_a_wrong_type_reads_as_absent() -> None:
    assert objects("text") == []
    assert mapping(["a"]) == {}
    assert word(3) == ""
    assert list(numbered(None)) == []


def test_objects_keep_their_place_among_other_things() -> None:
    assert list(numbered(["x", {"a": 1}])) == [(1, {"a": 1})]


def test_a_boolean_is_not_an_integer() -> None:
    assert whole(True) is None
    assert whole(7) == 7


def test_compact_keeps_the_order_of_keys() -> None:
    assert compact({"z": 1, "a": "é"}) == '{"z":1,"a":"é"}'


def test_the_first_failing_check_speaks() -> None:
    first, second = Refusal("one", "1"), Refusal("two", "2")

    refusal = first_refusal((lambda _: None, lambda _: first, lambda _: second), 0)

    assert refusal is first
