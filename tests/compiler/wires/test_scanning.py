import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import NotLifted, lift
from deuz_compiler.wires import scanning
from deuz_compiler.wires.members import BOM
from deuz_compiler.wires.openai_chat.request import RULES as CHAT
from deuz_compiler.wires.openai_responses.request import RULES as RESPONSES
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.scanning import Checkpoint, Elements, Members, scan
from deuz_compiler.wires.table import WIRES
from deuz_compiler.wires.turns import UNREAD, place_in
from deuz_testing.bodies import odd_bodies
from deuz_testing.checkpoints import checkpoint_of

TURN = b'{"role":"user","content":"%b"}' % (b"a" * 10_000)
# By the compiled scanner, and as where it was not built.
WAYS = pytest.mark.parametrize("is_built", [True, False], ids=["C", "msgspec"])


def scanned(
    rules: Rules, body: bytes, known: Checkpoint | None = None, *, is_built: bool
) -> tuple[Members, Elements]:
    if is_built:
        return scan(rules, body, known)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "SCANNER", None)
        return scan(rules, body, known)


def outcome(
    rules: Rules, body: bytes, known: Checkpoint | None = None, *, is_built: bool
) -> object:
    """Return the places that were found, or why there are none."""
    try:
        members, elements = scanned(rules, body, known, is_built=is_built)
    except NotLifted as fault:
        return fault.reason
    return members, elements.places, elements.tokens


def texts(body: bytes, elements: Elements) -> list[bytes]:
    places = [place_in(elements.places, at) for at in range(len(elements.kinds))]
    return [body[start:end] for start, end in places]


@WAYS
@given(body=odd_bodies())
def test_members_and_turns_are_where_json_reads_them(
    body: bytes, is_built: bool
) -> None:
    whole = json.loads(body.removeprefix(BOM))

    members, elements = scanned(CHAT, body, is_built=is_built)

    assert [json.loads(raw) for raw in texts(body, elements)] == whole["messages"]
    read = {m.key: json.loads(body[m.start : m.end]) for m in members}
    assert {key: read[key] for key in whole} == whole


@given(
    body=odd_bodies(),
    wire=st.sampled_from(sorted(WIRES)),
    cut=st.integers(0, 400),
    other=st.sampled_from(
        [b"", b'"', b"\\", b"[", b"}", b",", b"\xff", b"\\ud800", b"0"]
    ),
)
def test_both_ways_find_the_same_or_fail_alike(
    body: bytes, wire: str, cut: int, other: bytes
) -> None:
    rules = WIRES[wire].rules
    body = body.replace(b'"messages"', b'"%b"' % rules.history.encode())
    cut %= len(body)
    for text in (body, body[:cut] + other + body[cut + 1 :]):
        built = outcome(rules, text, is_built=True)

        assert built == outcome(rules, text, is_built=False)


@WAYS
@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[%b],"model":"m"}',
        b'{"model":"messages","messages":[%b]}',
        b'{"model":"m" , "messages" : [ %b ] , "n" : {} }\n',
        b'{"m\\u006fdel":"m","messages":[%b]}',
        b'{"a":["messages",{"messages":[1]}],"messages":[%b]}',
        b'{"m\\u0065ssages":[%b]}',
        BOM + b'{"messages":[%b]}',
    ],
)
def test_the_history_is_found_wherever_it_stands(body: bytes, is_built: bool) -> None:
    whole = body % TURN

    members, elements = scanned(CHAT, whole, is_built=is_built)

    assert texts(whole, elements) == [TURN]
    assert "messages" in [member.key for member in members]


@WAYS
@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[%b],"messages":[%b]}',
        b'{"messages":[%b],"m\\u0065ssages":[%b]}',
        b'{"m\\u0065ssages":[%b],"messages":[%b]}',
        b'{"messages":[%b,%b],"a":[],"messages":[]}',
        b'{"messages":[],"messages":[%b,%b]}',
        b'{"messages":[%b],"messages":{}}',
        b'{"a":1,"messages":[%b],"a":2}',
    ],
)
def test_a_member_that_stands_twice_is_refused(body: bytes, is_built: bool) -> None:
    count = body.count(b"%b")
    with pytest.raises(NotLifted, match="duplicate_key"):
        scanned(CHAT, body % ((b'{"role":"user"}',) * count), is_built=is_built)


@WAYS
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "unknown_shape"),
        (b'{"messages":{}}', "unknown_shape"),
        (b'{"model":"m"}', "unknown_shape"),
        (b'{"messages":[%b],}', "not_json"),
        (b'{"messages":[%b]} {}', "not_json"),
        (b'{"messages":[%b' + b"[" * 5_000, "not_json"),
        (b'{"messages":[%b,"\xff"]}', "not_json"),
        (b'{"messages":[%b],"a":"' + "€".encode()[:2] + b'"}', "not_json"),
        (b'{"messages":[%b],"a":"%b"}', "not_json"),
    ],
)
def test_what_cannot_be_scanned_says_why(
    body: bytes, reason: str, is_built: bool
) -> None:
    with pytest.raises(NotLifted, match=reason):
        scanned(CHAT, body.replace(b"%b", TURN), is_built=is_built)


@WAYS
def test_a_character_on_the_edge_of_two_checked_pieces_is_whole(is_built: bool) -> None:
    for shift in range(4):
        text = "€" * 30_000
        body = json.dumps(
            {"a": "x" * shift + text, "messages": []}, ensure_ascii=False
        ).encode()

        assert scanned(CHAT, body, is_built=is_built)[1].kinds == b""


@WAYS
@pytest.mark.parametrize("opening", [b'"input"', b'"i\\u006eput"'])
def test_a_list_of_texts_is_no_history(opening: bytes, is_built: bool) -> None:
    for history in (b'[{"role":"user"},"a"]', b'["a"]'):
        with pytest.raises(NotLifted, match="unknown_shape"):
            scanned(RESPONSES, b"{%b:%b}" % (opening, history), is_built=is_built)


@WAYS
def test_a_text_as_the_whole_history_is_its_one_turn(is_built: bool) -> None:
    body = b'{"model":"m","input":"hello"}'

    _, elements = scanned(RESPONSES, body, is_built=is_built)

    assert texts(body, elements) == [b'"hello"']


@WAYS
@pytest.mark.parametrize("body", [b'{"previous_response_id":"r"%b}', b"{%b}"])
def test_a_history_that_the_provider_holds_is_refused_before_its_shape(
    body: bytes, is_built: bool
) -> None:
    held = b"previous" in body
    for history in (b"", b',"input":[]', b',"input":"a"'):
        text = body % (history if held else history[1:] + b',"conversation":"c"')
        with pytest.raises(NotLifted, match="server_state"):
            scanned(RESPONSES, text.replace(b"{,", b"{"), is_built=is_built)


@WAYS
@pytest.mark.parametrize("known_turns", [0, 1])
def test_behind_a_checkpoint_only_the_rest_is_scanned(
    known_turns: int, is_built: bool
) -> None:
    first = b'{"model":"m","messages":[%b]}' % b",".join([TURN] * known_turns)
    body = b'{"model":"m","messages":[%b,%b],"n":1}' % (TURN, TURN)
    members, elements = scan(CHAT, body)

    known = checkpoint_of(lift("openai_chat", first))
    found = scanned(CHAT, body, known, is_built=is_built)

    assert found[0] == members
    assert texts(body, found[1]) == texts(body, elements)[known_turns:]


@pytest.mark.parametrize(
    "rest",
    [
        b"]}",
        b',{"role":"user"}]}',
        b' , {"role":"user"} ] , "n" : 1 } ',
        b",]}",
        b'{"role":"user"}]}',
        b'],"model":"m"}',
        b'],"messages":[]}',
        b'],"n":1,"n":2}',
        b"]} x",
        b',"\xff"]}',
    ],
)
@pytest.mark.parametrize("known_turns", [0, 1])
def test_both_ways_go_on_alike(rest: bytes, known_turns: int) -> None:
    start = b'{"model":"m","messages":[%b' % b",".join([TURN] * known_turns)
    known = checkpoint_of(lift("openai_chat", start + b"]}"))

    built = outcome(CHAT, start + rest, known, is_built=True)

    assert built == outcome(CHAT, start + rest, known, is_built=False)


def test_without_the_scanner_no_turn_is_told_at_a_glance() -> None:
    body = b'{"messages":[{"role":"user","content":"a"}]}'

    assert scanned(CHAT, body, is_built=True)[1].kinds == bytes([0])
    assert scanned(CHAT, body, is_built=False)[1].kinds == bytes([UNREAD])
