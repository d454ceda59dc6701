from typing import Any

import pytest

from deuz_proxy.demo.words import LEGEND, count_words, describe

READ = "; read 0 from the cache, wrote 0, 0 uncached"


def left_out(*ids: str) -> dict[str, Any]:
    records = [
        {"source": "s", "record_id": i, "is_selected": False, "reason": "over-budget"}
        for i in ids
    ]
    return {"selected": 0, "tokens": 0, "refresh_reason": "initial", "records": records}


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({}, f"prefix unknown{READ}"),
        (
            {"verdict": {"verdict": "first"}, "usage": {"input_uncached": 7}},
            "prefix first; read 0 from the cache, wrote 0, 7 uncached",
        ),
    ],
)
def test_a_request_is_described_by_what_was_reported(
    told: dict[str, object], line: str
) -> None:
    assert describe(told) == [line]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({"segment": "turn", "index": 2, "offset": 9117}, "turn 2, byte 9117"),
        ({"segment": "system", "index": None, "offset": 0}, "system"),
    ],
)
def test_a_break_is_told_with_its_place_where_there_is_one(
    place: dict[str, object], words: str
) -> None:
    verdict = {"verdict": "broken", "cause": "c", "owner": "o", "lost_tokens": 5}

    (line,) = describe({"verdict": {**verdict, **place}})

    assert line == (
        f"prefix broken at {words}: c, owner o, 5 tokens lost (estimated){READ}"
    )


def test_records_left_out_are_named_with_their_reason() -> None:
    _, added, left = describe({"compile": left_out("a")})

    assert added == "context, initial: nothing new to add"
    assert left == "left out: s/a (over budget)"


def test_of_many_records_left_out_the_rest_is_counted() -> None:
    *_, left = describe({"compile": left_out("a", "b", "c", "d", "e")})

    assert left.endswith("s/c (over budget) and 2 more")


def test_only_new_blocks_are_told() -> None:
    placements = [
        {"is_new": is_new, "records": [name]}
        for name, is_new in (("old", False), ("new", True))
    ]

    assert describe({"placements": placements})[1:] == [
        "placed behind this question: new"
    ]


def test_counts_agree_with_their_noun() -> None:
    assert [count_words(n, "block") for n in (0, 1, 2)] == [
        "0 blocks",
        "1 block",
        "2 blocks",
    ]


@pytest.mark.parametrize("word", ["initial", "fresh-turn", "returned", "owner"])
def test_words_of_the_story_are_in_the_legend(word: str) -> None:
    assert word in LEGEND
