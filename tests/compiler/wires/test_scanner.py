import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from deuz_compiler.wires import scanner as module
from deuz_compiler.wires.glancing import make_glance
from deuz_compiler.wires.scanner import Columns, holds, load_scanner
from deuz_compiler.wires.scanning import quick_tokens
from deuz_compiler.wires.turns import DIGEST_BYTES, UNREAD, pack_tokens, place_in

BUILT = load_scanner()
DIGESTS = st.binary(min_size=16, max_size=16)
NOTHING = (b"", b"", b"", b"", 0)
SOURCE = Path(module.__file__).with_name("_scanner.c")


def found(text: bytes, at: int = 0, origin: int = 0) -> object:
    """Return what is found, with places instead of columns."""
    assert BUILT is not None
    seen = BUILT.scan(text, at, origin, b"h", *NOTHING)
    if seen is None:
        return None
    *told, signatures, (places, kinds, tokens, digests) = seen
    assert (signatures, kinds) == ((), bytes([UNREAD]) * len(kinds))
    assert digests == bytes(DIGEST_BYTES * len(kinds))
    spans = [place_in(places, index) for index in range(len(kinds))]
    assert tokens == pack_tokens([quick_tokens(end - start) for start, end in spans])
    return (*told, spans)


def test_it_is_built_here_and_its_absence_is_no_fault() -> None:
    assert BUILT is not None
    assert load_scanner("deuz_compiler.wires.no_scanner") is None
    assert load_scanner("deuz_compiler.wires.turns") is None


def test_it_tells_all_places_of_a_body() -> None:
    text = b' { "a" : {"h":[0]} , "h" : [ 1 , "x" , [2] ] , "b":"\xc3\xa4" } \n'

    assert found(text) == (
        (("a", 9, 18),),
        text.index(b"[ 1"),
        text.index(b"] ]") + 3,
        (("b", 51, 55),),
        [(29, 30), (33, 36), (39, 42)],
    )


def test_it_goes_on_inside_a_history() -> None:
    text = b'{"h":[1,2],"b":3}'
    behind = (("b", 15, 16),)

    assert found(text, 6, 1) == ((), 1, 10, behind, [(6, 7), (8, 9)])
    assert found(text, 7, 2) == ((), 1, 10, behind, [(8, 9)])
    assert found(text, 9, 2) == ((), 1, 10, behind, [])
    assert found(text, 7, 1) is None
    assert found(text, 8, 2) is None
    with pytest.raises(ValueError, match="at"):
        found(text, len(text) + 1, 1)


GLANCE = make_glance(roles=("user",), text="content", seen=tuple("abcdef"))


def seen(turns: Sequence[bytes], seed: int = 0) -> tuple[tuple[int, ...], Columns]:
    assert BUILT is not None
    body = b'{"h":[%b]}' % b",".join(turns)
    told = BUILT.scan(body, 0, 0, b"h", *GLANCE.spec, seed)
    assert told is not None
    return told[4], told[5]


@given(
    st.lists(st.one_of(st.integers(0, 300), st.integers(0, 6_000)), max_size=6),
    st.integers(0, 2**64 - 1),
)
def test_a_turn_that_is_glanced_at_has_the_digest_of_its_bytes(
    lengths: list[int], seed: int
) -> None:
    letters = (b"abcdefghijklmnopqrstuvwxyz" * 240, b"role user content " * 360)
    turns = [
        b'{"role":"user","content":"%b"}' % letters[at % 2][:length]
        for at, length in enumerate(lengths)
    ]

    signatures, (_, kinds, _, digests) = seen(turns, seed)

    assert kinds == bytes([signatures.index(signatures[kind]) for kind in kinds])
    assert UNREAD not in kinds
    assert digests == b"".join([xxh3_128_digest(turn, seed) for turn in turns])


def test_a_turn_that_is_too_short_is_left_to_be_read() -> None:
    signatures, (_, kinds, _, digests) = seen([b'{"role":"user"}'])

    assert (signatures, kinds, digests) == ((), bytes([UNREAD]), bytes(DIGEST_BYTES))


def test_turns_are_of_one_kind_while_they_look_alike_and_of_few_kinds() -> None:
    values = (b"0", b"null", b'""', b'"a"', b"[]", b"[0]", b"{}")
    turns = [
        b'{"role":"user","a":%b,"b":%b}' % (one, other)
        for one in values
        for other in values
    ]
    more = [turn.replace(b'"a"', b'"c"', 1) for turn in turns]

    signatures, (_, kinds, _, _) = seen([*turns, *turns])
    most, (_, all_kinds, _, _) = seen([*turns, *more, *turns])

    assert kinds == bytes(range(49)) * 2
    assert len(set(signatures)) == 49
    assert len(set(most)) == 64
    assert all_kinds == (
        bytes(range(64)) + bytes([UNREAD]) * (len(more) - 15) + bytes(range(49))
    )


@given(
    st.binary(min_size=24, max_size=24), st.lists(st.binary(min_size=16, max_size=16))
)
def test_links_are_hashes_of_the_last_one_and_a_digest(
    start: bytes, digests: list[bytes]
) -> None:
    assert BUILT is not None
    scope, link = start[:8], start[8:]
    expected = []
    for digest in digests:
        link = xxh3_128_digest(link + digest)
        expected.append(scope + link)

    assert BUILT.links(scope, start[8:], b"".join(digests)) == tuple(expected)


@given(
    st.binary(min_size=1, max_size=3_000), st.integers(0), st.sampled_from([0, 1, 2])
)
def test_a_start_is_known_by_the_last_place_ahead_and_what_stands_behind_it(
    body: bytes, end: int, listed: int
) -> None:
    assert BUILT is not None
    end %= len(body) + 1
    root, packed = bytes(range(16)), bytes(range(16, 16 + 16 * listed))

    found = BUILT.start_digest(root, packed, body, end)

    places = [place for place in (512, 1024)[:listed] if place <= end]
    start = places[-1] if places else 0
    link = (root + packed)[16 * len(places) : 16 * len(places) + 16]
    # What is shorter is hashed in other ways, which are not built.
    is_taken = end - start >= 17
    made = xxh3_128_digest(link + xxh3_128_digest(body[start:end]))
    assert found == (made if is_taken else None)


@pytest.mark.parametrize("name", ["halved", "sums"])
def test_what_is_no_column_is_not_taken(name: str) -> None:
    assert BUILT is not None
    with pytest.raises(ValueError, match=name):
        getattr(BUILT, name)(bytes(7))


@given(st.lists(DIGESTS))
def test_of_each_digest_the_first_half_is_taken(digests: list[bytes]) -> None:
    assert BUILT is not None
    assert BUILT.halved(b"".join(digests)) == b"".join([d[:8] for d in digests])


@pytest.mark.parametrize(
    ("sizes", "end"), [((15, 16), 2), ((16, 15), 2), ((16, 16), -1), ((16, 16), 4)]
)
def test_no_digest_is_made_of_what_is_no_start(
    sizes: tuple[int, int], end: int
) -> None:
    assert BUILT is not None
    root, packed = map(bytes, sizes)
    with pytest.raises(ValueError, match="start_digest"):
        BUILT.start_digest(root, packed, b"abc", end)


@given(
    st.lists(st.sampled_from([b"a", b"b", b"ab", b"x" * 70, b"aab"]), max_size=40),
    st.lists(st.sampled_from([b"a", b"ab", b"abab", b"aabx", b"q"]), max_size=3),
    st.integers(0, 300),
    st.integers(0, 300),
)
def test_a_word_is_found_where_it_stands(
    pieces: list[bytes], words: list[bytes], start: int, more: int
) -> None:
    text = b"".join(pieces)
    start = min(start, len(text))
    end = min(start + more, len(text))
    listed = b"".join([word + b"\0" for word in words])

    is_there = any(word in text[start:end] for word in words)

    assert holds(text, start, end, listed) == is_there
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        assert holds(text, start, end, listed) == is_there


@pytest.mark.parametrize("part", [(-1, 1), (2, 1), (0, 4)])
def test_what_is_no_part_of_the_text_is_not_searched(part: tuple[int, int]) -> None:
    assert BUILT is not None
    with pytest.raises(ValueError, match="holds"):
        BUILT.holds(b"abc", *part, b"a\0")


@given(
    st.binary(max_size=90),
    st.lists(st.tuples(st.integers(0, 90), st.binary(max_size=40)), max_size=6),
    st.binary(max_size=9),
    st.binary(max_size=9),
)
def test_texts_are_spliced_in_at_their_places(
    body: bytes, marked: list[tuple[int, bytes]], before: bytes, behind: bytes
) -> None:
    assert BUILT is not None
    places = sorted(min(at, len(body)) for at, _ in marked)
    texts = [text for _, text in marked]
    expected, last = b"", 0
    for at, text in zip(places, texts, strict=True):
        expected += body[last:at] + before + text + behind
        last = at

    column = struct.pack(f"={len(places)}Q", *places)

    assert BUILT.splice(body, column, before, behind, texts) == expected + body[last:]


@pytest.mark.parametrize(
    ("places", "texts", "fault"),
    [
        ((4,), [b"a"], "in order"),
        ((2**64 - 1,), [b"a"], "in order"),
        ((2, 1), [b"a", b"b"], "in order"),
        ((1,), [], "as many"),
        ((), [b"a"], "as many"),
        ((1,), ["a"], "bytes"),
        ((1,), (b"a",), "list"),
    ],
)
def test_nothing_is_spliced_in_where_there_is_no_place_for_it(
    places: tuple[int, ...], texts: Any, fault: str
) -> None:
    assert BUILT is not None
    column = struct.pack(f"={len(places)}Q", *places)

    with pytest.raises((ValueError, TypeError), match=fault):
        BUILT.splice(b"abc", column, b"<", b">", texts)


def test_a_column_that_ends_within_a_place_is_refused() -> None:
    assert BUILT is not None
    with pytest.raises(ValueError, match="as many"):
        BUILT.splice(b"abc", bytes(9), b"<", b">", [b"a"])


@pytest.mark.parametrize(
    "asked",
    [
        ("holds", b"abc", 0, 1),
        ("holds", b"abc", 0, 1, "a"),
        ("holds", b"abc", 0, "1", b"a\0"),
        ("holds", b"abc", 0.0, 1, b"a\0"),
        ("holds", memoryview(b"abc"), 0, 1, b"a\0"),
        ("links", bytes(8), bytes(16)),
        ("links", bytes(8), bytes(16), None),
        ("starts", bytes(16), "body"),
        ("starts", bytes(16)),
        ("halved", "digests"),
        ("halved",),
        ("sums", "column"),
        ("sums",),
        ("start_digest", bytes(16), b"", b"abc", None),
        ("start_digest", bytes(16), b"", "abc", 1),
        ("start_digest", bytes(16), b"", b"abc", 1, 2),
        ("scan", "abc", 0, 0, b"h", *NOTHING),
        ("scan", b"abc", None, 0, b"h", *NOTHING),
        ("scan", b"abc", 0, "0", b"h", *NOTHING),
        ("scan", b"abc", 0, 0, "h", *NOTHING),
        ("scan", b"abc", 0, 0, b"h", *NOTHING[:4], "seed"),
        ("scan", b"abc", 0, 0, b"h"),
    ],
)
def test_what_is_asked_with_something_else_is_refused(asked: tuple[Any, ...]) -> None:
    assert BUILT is not None
    name, *values = asked
    with pytest.raises(TypeError):
        getattr(BUILT, name)(*values)


@pytest.mark.parametrize("sizes", [(7, 16, 16), (8, 15, 16), (8, 16, 17)])
def test_links_of_another_size_are_refused(sizes: tuple[int, int, int]) -> None:
    assert BUILT is not None
    with pytest.raises(ValueError, match="links"):
        BUILT.links(*map(bytes, sizes))


@pytest.mark.parametrize(
    "value",
    [
        *(b"0 -0 0.5 1e3 1E+30 -12.25e-2 123456789012345678901234567890").split(),
        *(b'true false null [] {} [[],{}] {"a":{"a":[1,{}]},"b":""}').split(),
        b'"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\ude00\x7f"',
        '"aä€😀\ue000\u07ff\u0800\U0010ffff"'.encode(),
        b'"0123456789abcde\xc3\xa4"',
        b"[" * 128 + b"]" * 128,
    ],
)
def test_what_is_json_is_passed(value: bytes) -> None:
    assert found(b'{"h":[%b,%b],"a":%b}' % (value, value, value)) is not None


@pytest.mark.parametrize(
    "value",
    [
        *b"01 - +1 1. .5 1e 1e+ 0x1 NaN Infinity tru nulll True".split(),
        *(b'[1,] [,1] [1 2] {1:2} {"a"} {"a":} {"a":1,} [} {] ] ["a":1]').split(),
        b"",
        b'"',
        b'"\\"',
        b'"\\',
        b'"\\x"',
        b'"\\u12g4"',
        b'"\\u12',
        b'"\\ud800"',
        b'"\\ud800\\u0041"',
        b'"\\udc00"',
        b'"\\ud83d\\ude0"',
        b'"\n"',
        b'"\x00"',
        b'"0123456789abcdef\x1f"',
        b'"\x80"',
        b'"\xc3"',
        b'"\xc0\xaf"',
        b'"\xe0\x80\xaf"',
        b'"\xed\xa0\x80"',
        b'"\xf0\x80\x80\xaf"',
        b'"\xf4\x90\x80\x80"',
        b'"\xf5\x80\x80\x80"',
        b'"\xe2\x82"',
        b"[" * 130 + b"]" * 130,
    ],
)
def test_what_is_no_json_or_too_odd_is_given_up(value: bytes) -> None:
    for text in (b'{"h":[1,%b]}', b'{"h":[],"a":%b}', b'{"a":%b,"h":[]}', b'{"h":[%b'):
        assert found(text % value) is None


SAID = st.sampled_from(
    [
        *(b"a", b"words " * 3, b"x" * 15, b"x" * 16, b"n" * 63, b"x" * 64, b"u" * 200),
        *(b"\\n", b'\\"', b"\\\\", b"\\t", b"\\/", b"\\u00e4", b"\\ud83d\\ude00"),
        *("ä".encode(), "→€".encode(), "😀".encode(), b"{", b"]", b","),
        *("я".encode() * 31, "界".encode() * 20, "😀".encode() * 15),
        "\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff".encode(),
    ]
)
UNSAID = st.sampled_from(
    [
        *(b"\\x", b"\\ud83d", b"\\u12", b"\x1f", b"\n", b"\x80", b"\xc3", b"\xf0\x9f"),
        *(b"\xc0\xaf", b"\xc1\xbf", b"\xf5\x80\x80\x80", b"\xff", b"\xe2\x82"),
        *(b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80"),
    ]
)


@given(st.lists(SAID, max_size=40), st.lists(SAID, max_size=40))
def test_a_string_ends_with_its_quote_wherever_that_stands(
    first: list[bytes], second: list[bytes]
) -> None:
    texts = [b'"%b"' % b"".join(pieces) for pieces in (first, second)]
    text = b'{"a":%b,"h":[%b],"b":0}' % tuple(texts)

    told = found(text)

    assert isinstance(told, tuple)
    (_, *place), *_, spans = told[0][0], told[4]
    assert text[slice(*place)] == texts[0]
    assert [text[slice(*span)] for span in spans] == [texts[1]]


@given(st.lists(SAID, max_size=40), UNSAID, st.lists(SAID, max_size=40))
def test_what_may_not_stand_in_a_string_is_seen_wherever_it_stands(
    before: list[bytes], fault: bytes, after: list[bytes]
) -> None:
    # Of a pair, the other half would make it whole.
    text = b"".join([*before, fault, b" ", *after])

    assert found(b'{"h":["%b"]}' % text) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{",
        b"{}",
        b'{"a":1}',
        b'{"h":{}}',
        b'{"h":"a"}',
        b'{"h":[],"h":[]}',
        b'{"h":[]}x',
        b'{"h":[]',
        b'{"h":[]}\x00',
        b'\xef\xbb\xbf{"h":[]}',
        b'{"\\u0061":1,"h":[]}',
        b'{%b,"h":[]}' % b",".join(b'"k%d":1' % i for i in range(65)),
    ],
)
def test_a_body_that_is_unusual_is_given_up(text: bytes) -> None:
    assert found(text) is None


@pytest.mark.parametrize("flags", [(), ("-U__SSE2__",)], ids=["SSE2", "plain C"])
def test_nothing_outside_a_body_is_read_whatever_is_in_it(
    flags: tuple[str, ...], tmp_path: Path
) -> None:
    """A million bodies, cut and changed at random, under the address sanitizer."""
    driver = Path(__file__).with_name("fuzz_scanner.c")
    program = tmp_path / "fuzz"
    command = ["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-DWITHOUT_PYTHON"]
    command += ["-Wall", "-Wextra", "-Werror", *flags]
    command += [f"-I{SOURCE.parent}", str(driver), "-o", str(program)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    ran = subprocess.run(
        [str(program), "1000000"], check=False, capture_output=True, text=True
    )

    assert ran.returncode == 0, ran.stderr[-2000:]
    passed, total = map(int, ran.stdout.split())
    # Enough are still JSON for the ways behind the first fault to be gone, too.
    assert total == 1_000_000
    assert passed > 50_000
