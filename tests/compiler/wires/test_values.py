import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.values import ValueCutter

OBJECTS = st.dictionaries(
    st.text('ab"\\{}[]é', max_size=4),
    st.recursive(
        st.none() | st.integers() | st.text('ab"\\{}[]\n', max_size=6),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


def cut(*chunks: bytes, limit_bytes: int = 1 << 20) -> tuple[list[bytes], int]:
    cutter = ValueCutter(limit_bytes=limit_bytes)
    blocks = [block for chunk in chunks for block in cutter.feed(chunk)]
    return blocks + cutter.close(), cutter.skipped_events


@given(
    objects=st.lists(OBJECTS, max_size=4),
    form=st.sampled_from(["lines", "array", "pretty", "events"]),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_every_split_of_any_form_gives_the_objects(
    objects: list[dict[str, Any]], form: str, cuts: list[int]
) -> None:
    encoded = [
        json.dumps(each, indent=2 if form == "pretty" else None) for each in objects
    ]
    text = {
        "lines": "".join(f"{each}\n" for each in encoded),
        "array": "[" + ",\r\n".join(encoded) + "]",
        "pretty": "\n".join(encoded),
        "events": "".join(f"data: {each}\n\n" for each in encoded),
    }[form].encode()
    bounds = [0, *sorted(min(at, len(text)) for at in cuts), len(text)]

    blocks, _ = cut(*(text[a:b] for a, b in itertools.pairwise(bounds)))

    assert [json.loads(block) for block in blocks] == objects


def test_an_object_that_was_cut_off_is_given_back_when_the_stream_ends() -> None:
    assert cut(b'{"a":1}\n{"b":"x') == ([b'{"a":1}', b'{"b":"x'], 0)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_object_over_the_limit_is_skipped_and_those_behind_it_are_read(
    size: int,
) -> None:
    text = b'{"a":"%b"}\n{"b":1}' % (b"x\\n" * 40)
    chunks = [text[at : at + size] for at in range(0, len(text), size)]

    # In one piece it is whole before it could be too large to hold.
    expected = [b'{"b":1}'] if size < 100 else [text[:-8], b'{"b":1}']
    assert cut(*chunks, limit_bytes=50) == (expected, 1 if size < 100 else 0)


def test_an_object_over_the_limit_at_the_end_is_not_given_back() -> None:
    assert cut(b'{"a":"' + b"x" * 99, limit_bytes=50) == ([], 1)


@pytest.mark.parametrize(
    ("text", "skipped"),
    [(b"", 0), (b" \n", 0), (b"<html>no</html>", 1), (b"[]", 1), (b'"a \\" {}"', 1)],
)
def test_bytes_without_an_object_count_as_skipped(text: bytes, skipped: int) -> None:
    assert cut(text) == ([], skipped)


def test_idle_is_between_two_objects_only() -> None:
    cutter = ValueCutter()

    seen = []
    for chunk in (b"", b'{"a":', b"1}", b"\n", b'"', b'"'):
        cutter.feed(chunk)
        seen.append(cutter.is_idle)

    assert seen == [False, False, True, True, False, True]
