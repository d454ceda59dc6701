import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.compaction.shorten import MARKER, HeadTail, shorten_content
from deuz_compiler.errors import MalformedInput

LIMITS = HeadTail(threshold_characters=120, head_characters=30, tail_characters=20)
TEXTS = st.text('ab\n"\\\u00e9\U0001f600\t', max_size=160)
BLOCKS = st.lists(
    st.one_of(
        TEXTS.map(lambda text: {"type": "text", "text": text}),
        TEXTS.map(lambda text: {"text": text, "type": "input_text", "x": 1}),
        st.just({"type": "image", "source": {"data": "AAAA"}}),
        st.just("odd"),
        st.just({"type": "text", "text": None}),
    ),
    max_size=6,
)


def shortened(content: Any, limits: HeadTail = LIMITS) -> Any:
    value = shorten_content(json.dumps(content).encode(), limits)
    return None if value is None else json.loads(value)


def words_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(b.get("text") or "" for b in content if isinstance(b, dict))


def test_defaults_are_the_published_ones() -> None:
    assert HeadTail() == HeadTail(8192, 4096, 1024)
    assert shortened("x" * 8192, HeadTail()) is None
    assert shortened("x" * 8193, HeadTail()) == "x" * 4096 + MARKER + "x" * 1024


@given(TEXTS | BLOCKS)
def test_head_and_tail_stay_and_a_second_pass_changes_nothing(content: Any) -> None:
    value = json.dumps(content, ensure_ascii=False).encode()
    words = words_of(content)

    left = shorten_content(value, LIMITS)

    assert (left is None) == (len(words) <= 120)
    if left is not None:
        assert words_of(json.loads(left)) == words[:30] + MARKER + words[-20:]
        assert len(left) < len(value)
        assert shorten_content(left, LIMITS) is None


@given(BLOCKS)
def test_other_blocks_keep_their_places_and_all_their_members(content: Any) -> None:
    left = shortened(content) or content

    others = [b for b in content if not isinstance(b, dict) or not b.get("text")]
    assert [b for b in left if not isinstance(b, dict) or not b.get("text")] == others
    changed = [{**b, "text": ""} for b in left if isinstance(b, dict) and b.get("text")]
    assert all(
        block in [{**b, "text": ""} for b in content if isinstance(b, dict)]
        for block in changed
    )


def test_emptied_blocks_vanish_and_the_marker_stands_where_the_gap_opens() -> None:
    image = {"type": "image", "source": {}}
    blocks = [
        {"type": "text", "text": "h" * 30},
        {"type": "text", "text": "m" * 50},
        image,
        {"type": "text", "text": "m" * 50},
        {"type": "text", "text": "m" * 10 + "t" * 20, "citations": []},
    ]

    assert shortened(blocks) == [
        blocks[0],
        {"type": "text", "text": MARKER},
        image,
        {"type": "text", "text": "t" * 20, "citations": []},
    ]


def test_no_character_is_split() -> None:
    text = "\U0001f600" * 130

    assert shortened(text) == "\U0001f600" * 30 + MARKER + "\U0001f600" * 20


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"null",
        b"7",
        b'{"text":"%b"}' % (b"x" * 300),
        b'"%b' % (b"x" * 300),
        b'["%b"]' % (b"x" * 300),
        b'[{"type":"text","text":"%b","text":"%b"}]' % (b"x" * 300, b"y" * 300),
        b'[{"type":"image","text":"%b"}]' % (b"x" * 300),
        b'[{"type":"text","text":7}]',
        b'["%b",%b]' % (b"x" * 300, b"[" * 9_000 + b"]" * 9_000),
    ],
)
def test_shape_without_readable_text_is_left_alone(value: bytes) -> None:
    assert shorten_content(value, LIMITS) is None


@pytest.mark.parametrize(
    ("settings", "faults"),
    [
        ((100, 30, 20), ["threshold_characters: 100 is less than head"]),
        ((0, 0, 0), ["0 is not above 0", "0 is less than head"]),
        ((200, -1, -2), ["head_characters: -1", "tail_characters: -2"]),
        (("9", 1.5, True), ["threshold_", "head_", "tail_"]),
    ],
)
def test_settings_that_cannot_shrink_are_refused_with_all_faults(
    settings: tuple[Any, ...], faults: list[str]
) -> None:
    with pytest.raises(MalformedInput) as caught:
        HeadTail(*settings)

    for found, expected in zip(caught.value.faults, faults, strict=True):
        assert expected in found


def test_marker_just_fits() -> None:
    room = len(json.dumps(MARKER)) - 2

    assert HeadTail(50 + room, 30, 20).tail_characters == 20
    with pytest.raises(MalformedInput):
        HeadTail(50 + room - 1, 30, 20)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"threshold_characters": 9_000, "middle": 1}, HeadTail)
