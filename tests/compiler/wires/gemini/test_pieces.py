import msgspec
import pytest

from deuz_compiler.wires.gemini.pieces import (
    piece_places,
    read_content,
    read_piece,
    read_pieces,
    role_of,
    spell,
)


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("system_instruction", "systemInstruction"),
        ("systemInstruction", "systemInstruction"),
        ("contents", "contents"),
        ("max_output_tokens", "maxOutputTokens"),
        ("", ""),
    ],
)
def test_a_name_is_spelled_in_camel_case(name: str, spelled: str) -> None:
    assert spell(name) == spelled
    assert spell(spelled) == spelled


@pytest.mark.parametrize(
    ("raw", "role"),
    [
        (b'{"parts":[]}', "user"),
        (b'{"role":null,"parts":[]}', "user"),
        (b'{"role":"","parts":[]}', "user"),
        (b'{"role":"user","parts":[]}', "user"),
        (b'{"role":"model","parts":[]}', "assistant"),
        (b'{"role":"function","parts":[]}', "tool"),
        (b'{"role":"odd","parts":[]}', "odd"),
    ],
)
def test_a_turn_without_a_role_is_the_users(raw: bytes, role: str) -> None:
    assert role_of(read_content(raw)) == role


@pytest.mark.parametrize(
    "raw", [b"{}", b'{"role":"user"}', b"1", b'{"role":1,"parts":[]}']
)
def test_what_is_no_turn_is_not_read(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_content(raw)


@pytest.mark.parametrize(
    ("camel", "snake"),
    [
        (b'{"functionCall":{"name":"f"}}', b'{"function_call":{"name":"f"}}'),
        (b'{"functionResponse":{"name":"f"}}', b'{"function_response":{"name":"f"}}'),
        (b'{"inlineData":{"data":""}}', b'{"inline_data":{"data":""}}'),
        (b'{"fileData":{"fileUri":""}}', b'{"file_data":{"fileUri":""}}'),
        (
            b'{"text":"a","thoughtSignature":"s"}',
            b'{"text":"a","thought_signature":"s"}',
        ),
    ],
)
def test_both_spellings_are_one(camel: bytes, snake: bytes) -> None:
    one, other = read_piece(camel), read_piece(snake)

    for name in ("calls", "returns", "media", "is_signed", "is_said", "is_thought"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize(
    ("raw", "is_said", "is_thought"),
    [
        (b'{"text":"a"}', True, False),
        (b'{"text":"a","thought":false}', True, False),
        (b'{"text":""}', False, False),
        (b'{"text":"a","thought":true}', False, True),
        (b'{"executableCode":{}}', False, False),
        (b'{"functionCall":null,"text":null}', False, False),
    ],
)
def test_thoughts_and_blanks_are_not_said(
    raw: bytes, is_said: bool, is_thought: bool
) -> None:
    piece = read_piece(raw)

    assert (piece.is_said, piece.is_thought) == (is_said, is_thought)
    assert (piece.calls, piece.returns, piece.media, piece.is_signed) == (
        b"",
        b"",
        b"",
        False,
    )


def test_a_lone_part_is_a_list_of_one() -> None:
    lone = b'{"text":"a"}'

    assert read_pieces(lone) == read_pieces(b"[" + lone + b"]")
    assert piece_places(lone, shift=5) == [(5, 5 + len(lone))]
    assert piece_places(b"[" + lone + b"]", shift=5) == [(6, 6 + len(lone))]
