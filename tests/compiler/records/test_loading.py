from typing import Literal

import msgspec

from deuz_compiler.records.loading import (
    UNREADABLE,
    encodable,
    load_record,
    load_records,
    parse_json,
)


class Answer(msgspec.Struct):
    word: Literal["yes", "no"]


class Point(msgspec.Struct):
    x: int
    y: float = 0.0
    tags: tuple[str, ...] = ()


def test_sound_record_is_loaded_with_its_defaults() -> None:
    faults: list[str] = []

    point = load_record(Point, {"x": 1, "tags": ["a"]}, where="point", faults=faults)

    assert (point, faults) == (Point(1, 0.0, ("a",)), [])


def test_every_field_is_looked_at() -> None:
    faults: list[str] = []

    point = load_record(
        Point, {"z": 1, "y": "no", "tags": [1]}, where="point", faults=faults
    )

    assert point is None
    assert faults == [
        "point: unknown field z",
        "point: x is missing",
        "point: y: is not a number",
        "point: tags[0]: is not text",
    ]


def test_names_from_outside_are_shown_short_and_on_one_line() -> None:
    faults: list[str] = []

    load_record(
        Point, {"x": 1, "a\nb\x1b": 1, "c" * 999: 1}, where="point", faults=faults
    )

    assert faults == [
        "point: unknown field a?b?",
        f"point: unknown field {'c' * 256}",
    ]


def test_half_a_surrogate_pair_in_place_of_a_known_word_is_a_fault() -> None:
    faults: list[str] = []

    load_record(Answer, {"word": "\ud800"}, where="answer", faults=faults)

    assert faults == ["answer: word: not Unicode"]


def test_half_a_surrogate_pair_has_another_character_in_its_place() -> None:
    assert encodable("caf\udce9 é\n\ud800") == "caf\ufffd é\n\ufffd"


def test_whole_numbers_are_not_taken_for_granted() -> None:
    for wrong in (1.5, 1.0, True, "1", None):
        faults: list[str] = []
        load_record(Point, {"x": wrong}, where="point", faults=faults)
        assert len(faults) == 1


def test_list_keeps_what_is_sound_and_names_the_place_of_the_rest() -> None:
    faults: list[str] = []

    points = load_records(Point, [{"x": 1}, 5, {"x": 2}], where="points", faults=faults)

    assert points == (Point(1), Point(2))
    assert faults == ["points[1]: not an object"]


def test_other_shapes_are_faults() -> None:
    faults: list[str] = []

    load_records(Point, {"x": 1}, where="points", faults=faults)
    load_record(Point, None, where="point", faults=faults)

    assert faults == ["points: not a list", "point: not an object"]


def test_text_that_is_not_json_is_told_once() -> None:
    for payload in (b"{", b'"\xff"'):
        faults: list[str] = []
        raw = parse_json(payload, where="file", faults=faults)
        load_record(Point, raw, where="file", faults=faults)
        load_records(Point, raw, where="file", faults=faults)

        assert raw is UNREADABLE
        assert len(faults) == 1
        assert faults[0].startswith("file: not JSON: ")


def test_text_that_is_nested_too_deeply_is_told() -> None:
    faults: list[str] = []

    value = parse_json(b"[" * 100_000, where="file", faults=faults)

    assert value is UNREADABLE
    assert faults == ["file: nested too deeply"]
