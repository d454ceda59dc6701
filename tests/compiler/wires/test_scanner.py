import subprocess
from pathlib import Path

import pytest

from deuz_compiler.wires import scanner as module
from deuz_compiler.wires.scanner import load_scanner

BUILT = load_scanner()
NOTHING = (b"", b"")
SOURCE = Path(module.__file__).with_name("_scanner.c")


def found(text: bytes) -> object:
    assert BUILT is not None
    return BUILT(text, 0, 0, b"h", *NOTHING)


def test_it_is_built_here_and_its_absence_is_no_fault() -> None:
    assert BUILT is not None
    assert load_scanner("deuz_compiler.wires.no_scanner") is None


def test_it_tells_all_places_of_a_body() -> None:
    text = b' { "a" : {"h":[0]} , "h" : [ 1 , "x" , [2] ] , "b":"\xc3\xa4" } \n'

    assert found(text) == (
        (("a", 9, 18),),
        text.index(b"[ 1"),
        text.index(b"] ]") + 3,
        (("b", 51, 55),),
        [(29, 30, -1), (33, 36, -1), (39, 42, -1)],
    )


def test_it_goes_on_inside_a_history() -> None:
    assert BUILT is not None
    text = b'{"h":[1,2],"b":3}'
    behind = (("b", 15, 16),)

    assert BUILT(text, 6, 1, b"h", *NOTHING) == (
        (),
        1,
        10,
        behind,
        [(6, 7, -1), (8, 9, -1)],
    )
    assert BUILT(text, 7, 2, b"h", *NOTHING) == ((), 1, 10, behind, [(8, 9, -1)])
    assert BUILT(text, 9, 2, b"h", *NOTHING) == ((), 1, 10, behind, [])
    assert BUILT(text, 7, 1, b"h", *NOTHING) is None
    assert BUILT(text, 8, 2, b"h", *NOTHING) is None
    with pytest.raises(ValueError, match="at"):
        BUILT(text, len(text) + 1, 1, b"h", *NOTHING)


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


def test_nothing_outside_a_body_is_read_whatever_is_in_it(tmp_path: Path) -> None:
    """A million bodies, cut and changed at random, under the address sanitizer."""
    driver = Path(__file__).with_name("fuzz_scanner.c")
    program = tmp_path / "fuzz"
    command = ["gcc", "-O1", "-g", "-fsanitize=address,undefined", "-DWITHOUT_PYTHON"]
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
