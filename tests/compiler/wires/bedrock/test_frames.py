import itertools
import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.bedrock.frames import FrameCutter, read_frame
from deuz_compiler.wires.sse import ServerEvent
from deuz_testing.aws_frames import TEXT, event, exception, frame, header

FRAMES = [event("messageStart", {"role": "assistant"}), event("metadata", {"a": 1})]


def cut(*chunks: bytes, limit_bytes: int = 1 << 20) -> tuple[list[bytes], int]:
    cutter = FrameCutter(limit_bytes=limit_bytes)
    blocks = [block for chunk in chunks for block in cutter.feed(chunk)]
    return blocks + cutter.close(), cutter.skipped_events


def test_the_frames_of_these_tests_are_those_that_botocore_reads() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(b"".join(FRAMES))

    read = [(m.headers[":event-type"], m.payload) for m in buffer]

    events = [read_frame(frame) for frame in FRAMES]
    assert read == [(e.name.decode(), e.data) for e in events]


@given(cuts=st.lists(st.integers(0, 300), max_size=8))
def test_every_split_gives_the_frames(cuts: list[int]) -> None:
    text = b"".join(FRAMES)
    bounds = [0, *sorted(min(at, len(text)) for at in cuts), len(text)]

    assert cut(*(text[a:b] for a, b in itertools.pairwise(bounds))) == (FRAMES, 0)


@pytest.mark.parametrize("size", [1, 13, 4096])
def test_a_frame_over_the_limit_is_skipped_and_the_next_is_read(size: int) -> None:
    text = event("big", {"text": "x" * 500}) + FRAMES[0]
    chunks = [text[at : at + size] for at in range(0, len(text), size)]

    assert cut(*chunks, limit_bytes=200) == ([FRAMES[0]], 1)


@pytest.mark.parametrize(
    "broken",
    [
        b"\0\0\0\x10\0\0\0\0\x01\x02\x03\x04",
        struct.pack(">III", 4, 0, zlib.crc32(struct.pack(">II", 4, 0))),
    ],
)
def test_behind_a_length_that_cannot_be_trusted_nothing_is_read(broken: bytes) -> None:
    assert cut(FRAMES[0] + broken, FRAMES[1]) == ([FRAMES[0]], 1)


def test_a_frame_that_was_cut_off_is_counted() -> None:
    assert cut(FRAMES[0], FRAMES[1][:-1]) == ([FRAMES[0]], 1)


def test_a_body_is_given_back_when_it_ends() -> None:
    assert cut(b'{"message":', b'"no"}') == ([b'{"message":"no"}'], 0)
    assert cut() == ([], 0)


def test_a_body_over_the_limit_is_let_go() -> None:
    assert cut(b"{" + b"x" * 300, b"x", limit_bytes=200) == ([], 1)


def test_idle_is_between_two_frames_only() -> None:
    cutter = FrameCutter()

    seen = [cutter.is_idle]
    for chunk in (FRAMES[0][:5], FRAMES[0][5:], b"\0" * 12):
        cutter.feed(chunk)
        seen.append(cutter.is_idle)

    assert seen == [False, False, True, False]


def test_an_exception_is_told_by_its_own_name() -> None:
    found = read_frame(exception("throttlingException", {"message": "m"}))

    assert found == ServerEvent(b"throttlingException", b'{"message": "m"}')


def test_headers_of_every_type_are_passed_over() -> None:
    others = b"".join(
        bytes([1]) + b"x" + bytes([kind]) + b"\1" * size
        for kind, size in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 4),
            (5, 8),
            (8, 8),
            (9, 16),
        ]
    )
    blob = bytes([1]) + b"b" + bytes([6]) + struct.pack(">H", 3) + b"abc"
    headers = others + blob + header(":event-type", "e")

    assert read_frame(frame(headers, b"{}")) == ServerEvent(b"e", b"{}")


@pytest.mark.parametrize(
    "headers",
    [b"", b"\x05ab", b"\x01x\x63", bytes([1]) + b"x" + bytes([TEXT])],
)
def test_damaged_headers_leave_a_frame_without_a_name(headers: bytes) -> None:
    assert read_frame(frame(headers, b"{}")) == ServerEvent(b"?", b"{}")
