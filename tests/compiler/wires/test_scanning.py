import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import NotLifted, lift
from deuz_compiler.wires.lifting import checkpoint_of
from deuz_compiler.wires.members import BOM
from deuz_compiler.wires.openai_chat.request import RULES as CHAT
from deuz_compiler.wires.openai_responses.request import RULES as RESPONSES
from deuz_compiler.wires.scanning import scan
from deuz_testing.bodies import odd_bodies

TURN = b'{"role":"user","content":"%b"}' % (b"a" * 10_000)
SIZES = pytest.mark.parametrize("pad", [b"", b" " * 10_000])


@given(odd_bodies(), st.sampled_from([b"", b" " * 10_000]))
def test_members_and_turns_are_where_json_reads_them(body: bytes, pad: bytes) -> None:
    body += pad
    whole = json.loads(body.removeprefix(BOM))

    members, elements = scan(CHAT, body)

    assert [json.loads(raw) for _, raw in elements] == whole["messages"]
    assert all(body[at : at + len(raw)] == raw for at, raw in elements)
    read = {m.key: json.loads(body[m.start : m.end]) for m in members}
    assert {key: read[key] for key in whole} == whole


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[%b],"model":"m"}',
        b'{"model":"messages","messages":[%b]}',
        b'{"model":"m" , "messages" : [ %b ] , "n" : {} }\n',
        b'{"m\\u006fdel":"m","messages":[%b]}',
        # Found in two passes: the name stands elsewhere too often, or is spelled so.
        b'{"a":["messages","messages","messages","messages"],"messages":[%b]}',
        b'{"m\\u0065ssages":[%b]}',
        BOM + b'{"messages":[%b]}',
    ],
)
def test_the_history_is_found_wherever_it_stands(body: bytes) -> None:
    members, elements = scan(CHAT, body % TURN)

    assert [raw for _, raw in elements] == [TURN]
    assert "messages" in [member.key for member in members]


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[%b],"messages":[%b]}',
        b'{"messages":[%b],"m\\u0065ssages":[%b]}',
        b'{"m\\u0065ssages":[%b],"messages":[%b]}',
        b'{"messages":[%b,%b],"a":[],"messages":[]}',
        b'{"messages":[],"messages":[%b,%b]}',
        b'{"messages":[%b],"messages":{}}',
    ],
)
@SIZES
def test_a_history_that_stands_twice_is_refused(body: bytes, pad: bytes) -> None:
    count = body.count(b"%b")
    with pytest.raises(NotLifted, match="duplicate_key"):
        scan(CHAT, body % ((b'{"role":"user"}',) * count) + pad)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "unknown_shape"),
        (b'{"messages":{}}', "unknown_shape"),
        (b'{"messages":[%b],}', "not_json"),
        (b'{"messages":[%b]} {}', "not_json"),
        (b'{"messages":[%b' + b"[" * 5_000, "not_json"),
        (b'{"messages":[%b,"\xff"]}', "not_json"),
        (b'{"messages":[%b],"a":"' + "€".encode()[:2] + b'"}', "not_json"),
        (b'{"messages":[%b],"a":"%b"}', "not_json"),
    ],
)
@SIZES
def test_what_cannot_be_scanned_says_why(body: bytes, reason: str, pad: bytes) -> None:
    with pytest.raises(NotLifted, match=reason):
        scan(CHAT, body.replace(b"%b", TURN) + pad)


def test_a_character_on_the_edge_of_two_checked_pieces_is_whole() -> None:
    for shift in range(4):
        text = "€" * 30_000
        body = json.dumps(
            {"a": "x" * shift + text, "messages": []}, ensure_ascii=False
        ).encode()

        assert scan(CHAT, body)[1] == []


@pytest.mark.parametrize("opening", [b'"input"', b'"i\\u006eput"'])
@SIZES
def test_a_list_of_texts_is_no_history(opening: bytes, pad: bytes) -> None:
    with pytest.raises(NotLifted, match="unknown_shape"):
        scan(RESPONSES, b'{%b:[{"role":"user"},"a"]}' % opening + pad)


def test_a_text_as_the_whole_history_is_its_one_turn() -> None:
    body = b'{"model":"m","input":"hello"}'

    _, elements = scan(RESPONSES, body)

    assert elements == [(body.index(b'"hello"'), b'"hello"')]


@pytest.mark.parametrize("body", [b'{"previous_response_id":"r"%b}', b"{%b}"])
def test_a_history_that_the_provider_holds_is_refused_before_its_shape(
    body: bytes,
) -> None:
    held = b"previous" in body
    for history in (b"", b',"input":[]', b',"input":"a"'):
        text = body % (history if held else history[1:] + b',"conversation":"c"')
        for pad in (b"", b" " * 10_000):
            with pytest.raises(NotLifted, match="server_state"):
                scan(RESPONSES, text.replace(b"{,", b"{") + pad)


def test_behind_a_checkpoint_only_the_rest_is_scanned() -> None:
    first = b'{"model":"m","messages":[%b]}' % TURN
    body = b'{"model":"m","messages":[%b,%b],"n":1}' % (TURN, TURN)
    members, elements = scan(CHAT, body)

    known = checkpoint_of(lift("openai_chat", first))

    assert scan(CHAT, body, known) == (members, elements[1:])
