import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import NotLifted
from deuz_compiler.wires.members import (
    array_elements,
    end_of_array,
    object_members,
    step_over,
    without_members,
)
from deuz_testing.bodies import odd_objects, odd_values


def test_members_are_found_with_blanks_and_escaped_keys() -> None:
    text = b' {"a" : 1 , "b":[1, {"x":"}"}],"c\\"d":"y"} \n'

    members = object_members(text)

    assert [(m.key, text[m.start : m.end]) for m in members] == [
        ("a", b"1"),
        ("b", b'[1, {"x":"}"}]'),
        ('c"d', b'"y"'),
    ]


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":"xxx","a":1}',
        b'{"\\u0061":1,"a":2}',
        b'{"a":"1,\\"b\\":2","b":1,"a":1}',
        b'{"a":12,"a":1,"b":2}',
        b'{"b":2,"a":12,"a":1}',
        b'{"a":1,"a":1,"b":2}',
    ],
)
def test_a_key_that_stands_twice_is_refused(text: bytes) -> None:
    with pytest.raises(NotLifted, match="duplicate_key"):
        object_members(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[1]", "unknown_shape"),
        (b"1", "unknown_shape"),
        (b"{", "not_json"),
        (b"", "not_json"),
        (b"{'a':1}", "not_json"),
        (b'{"a":1} x', "not_json"),
        (b'{"a":' * 100_000, "not_json"),
    ],
)
def test_what_is_no_object_is_refused_with_its_reason(text: bytes, reason: str) -> None:
    with pytest.raises(NotLifted, match=reason):
        object_members(text)


def test_an_object_without_members_has_none() -> None:
    assert object_members(b" { } ") == ()


def test_elements_are_found_between_blanks() -> None:
    text = b' [ 1 , {"a":[1]} , "x" ]'

    places = array_elements(text, shift=100)

    assert [text[s - 100 : e - 100] for s, e in places] == [b"1", b'{"a":[1]}', b'"x"']


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(NotLifted, match="unknown_shape"):
        array_elements(b"{}")


@given(st.data())
def test_every_member_of_an_odd_object_is_at_its_place(data: st.DataObject) -> None:
    values = {f"k{i}": data.draw(odd_values()) for i in range(3)}
    text = data.draw(odd_objects(values)).encode()

    found = {m.key: text[m.start : m.end].decode() for m in object_members(text)}

    assert {key: found[key] for key in values} == values


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (b'{"a":1,"gone":{"t":1},"b":2}', b'{"a":1,"b":2}'),
        (b'{"gone":{"t":1},"b":2}', b'{"b":2}'),
        (b'{"b":2, "gone": {"t":1}}', b'{"b":2}'),
        (b'{"gone": 1, "b": 2}', b'{"b": 2}'),
        (b'{"gone": 1, "away": 1, "b": 2}', b'{"b": 2}'),
        (b'{"b": 2}', b'{"b": 2}'),
    ],
)
def test_named_members_are_cut_with_one_comma(text: bytes, kept: bytes) -> None:
    assert without_members(text, frozenset({"gone", "away"})) == kept


@given(st.data())
def test_cutting_members_leaves_the_others_as_json_reads_them(
    data: st.DataObject,
) -> None:
    values = {f"k{i}": data.draw(odd_values()) for i in range(4)}
    text = data.draw(odd_objects(values)).encode()
    names = frozenset(data.draw(st.sets(st.sampled_from(sorted(values)))))

    cut = json.loads(without_members(text, names))

    whole = json.loads(text)
    assert cut == {key: value for key, value in whole.items() if key not in names}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (b'[{"a":1},{"b":2}]', [(1, b'{"a":1}'), (9, b'{"b":2}')]),
        (b'[ {"a":1} , 2\n]', [(2, b'{"a":1}'), (12, b"2")]),
    ],
)
def test_values_are_stepped_over_to_the_arrays_end(
    text: bytes, places: list[tuple[int, bytes]]
) -> None:
    values = [msgspec.Raw(raw) for _, raw in places]

    found, at = step_over(text, 1, values, shift=3)

    assert found == [(start + 3, raw) for start, raw in places]
    assert end_of_array(text, at) == len(text)


def test_values_that_stand_elsewhere_are_refused() -> None:
    with pytest.raises(NotLifted, match="duplicate_key"):
        step_over(b"[1,2]", 1, [msgspec.Raw(b"2")])
    with pytest.raises(NotLifted, match="duplicate_key"):
        end_of_array(b"[1,2]", 2)
