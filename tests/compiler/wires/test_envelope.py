from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import Edit, Spliced, lower, outbound_offset, splice
from deuz_compiler.wires.envelope import LONG_BYTES


def test_without_edits_the_very_same_object_is_returned() -> None:
    body = bytes(bytearray(b"body"))

    assert lower(body, ()) is body


def test_an_edit_replaces_its_range_and_an_insertion_nothing() -> None:
    edits = (Edit(0, 0, b"<"), Edit(1, 3, b"XYZ"), Edit(4, 4, b">"))

    assert lower(b"abcd", edits) == b"<aXYZd>"


@given(st.binary(max_size=60), st.data())
def test_everything_outside_the_edits_is_kept(body: bytes, data: st.DataObject) -> None:
    places = sorted(
        data.draw(st.lists(st.integers(0, len(body)), max_size=6, unique=True))
    )
    edits = tuple(Edit(at, at, b"[new]") for at in places)

    out = lower(body, edits)

    assert len(out) == len(body) + 5 * len(edits)
    for edit, moved in reversed(
        list(zip(edits, range(0, 5 * len(edits), 5), strict=True))
    ):
        at = edit.start + moved
        out = out[:at] + out[at + 5 :]
    assert out == body


@given(st.binary(min_size=6, max_size=60), st.data())
def test_a_long_body_in_pieces_is_the_body_with_the_edits(
    start: bytes, data: st.DataObject
) -> None:
    # Some of them are long, and some are not.
    body = start * (LONG_BYTES // 30)
    bounds = st.lists(st.integers(0, len(body)), max_size=6).map(sorted)
    places = data.draw(bounds.filter(lambda bounds: len(bounds) % 2 == 0))
    texts = data.draw(st.lists(st.binary(max_size=9), min_size=3, max_size=3))
    pairs = zip(places[::2], places[1::2], texts, strict=False)
    edits = [Edit(start, end, text) for start, end, text in pairs]

    sent = splice(body, edits)

    assert isinstance(sent, Spliced) == (bool(edits) and len(body) >= LONG_BYTES)
    assert bytes(sent) == lower(body, edits)
    assert len(sent) == len(bytes(sent))


def test_what_would_be_in_too_many_pieces_for_the_kernel_is_in_one() -> None:
    body = bytes(LONG_BYTES)
    edits = [Edit(at, at, b"text") for at in range(501)]

    assert isinstance(splice(body, edits[:500]), Spliced)
    assert splice(body, edits) == lower(body, edits)


def test_a_place_moves_by_what_was_put_before_it() -> None:
    edits = (Edit(2, 2, b"text"), Edit(4, 6, b"x"))

    moved = [outbound_offset(edits, offset) for offset in range(8)]

    # What is put exactly at a place stands behind it.
    assert moved == [0, 1, 2, 7, 8, 9, 9, 10]
