import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler.wires.glancing import NO_GLANCE, UNCLEAR, Peek, glance_at
from deuz_compiler.wires.parts import UNREADABLE
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.scanner import load_scanner
from deuz_compiler.wires.table import WIRES

GLANCED = {name: wire.rules for name, wire in WIRES.items() if wire.rules.glance.names}
BLOCK = {"type": "text", "text": "a"}
MARK = {"type": "ephemeral"}
ROLES = ("user", "assistant", "system", "developer", "tool", "sage", "")
BLOCKS: st.SearchStrategy[Any] = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(
                    [*("text", "image", "document", "tool_use", "tool_result"), "sage"]
                ),
                "text": st.sampled_from(["a", "cache_control"]),
                "input": st.sampled_from([{"path": 1}, {"cache_control": 1}]),
                "content": st.sampled_from(["a", [BLOCK], [{**BLOCK, "ttl": 1}]]),
                "citations": st.just([]),
                "cache_control": st.just(MARK),
            },
        ),
        st.sampled_from([BLOCK, {"type": 7}, {"type": None}, 7, "a", [], None]),
    ),
    max_size=4,
)
CONTENTS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["", "a", '"', "ä\n", None, {}, 1]), BLOCKS
)
CALLS: st.SearchStrategy[Any] = st.sampled_from(
    [None, [], [{}], {}, {"name": "f"}, "", "f", 0, True]
)


@st.composite
def turns(draw: st.DrawFn) -> bytes:
    """Return a turn with any of the members that a glance may look at."""
    role = draw(
        st.sampled_from(
            ["user", "assistant", "system", "developer", "tool", "sage", ""]
        )
    )
    members: dict[str, Any] = {"role": role}
    optional = {
        "content": CONTENTS,
        "tool_calls": CALLS,
        "function_call": CALLS,
        "images": CALLS,
        "name": CALLS,
        "cache_control": st.sampled_from([MARK, None]),
        "prompt_cache_breakpoint": st.sampled_from([MARK, None]),
    }
    for name, values in optional.items():
        if draw(st.integers(0, 2)):
            members[name] = draw(values)
    names = draw(st.permutations(sorted(members)))
    gap = draw(st.sampled_from(["", " "]))
    pairs = (f'"{n}"{gap}:{gap}{json.dumps(members[n])}' for n in names)
    return f"{{{gap}{f'{gap},{gap}'.join(pairs)}{gap}}}".encode()


def signature_of(rules: Rules, turn: bytes) -> int:
    scanner = load_scanner()
    assert scanner is not None
    history = rules.history.encode()
    body = b'{"%b":[%b]}' % (history, turn)
    found = scanner.scan(body, 0, 0, history, *rules.glance.spec, 0)
    assert found is not None
    return found[4][0] if found[4] else UNCLEAR


@pytest.mark.parametrize("wire", GLANCED)
@given(turn=turns())
def test_what_a_glance_tells_is_what_reading_tells(wire: str, turn: bytes) -> None:
    rules = GLANCED[wire]
    try:
        told = glance_at(rules.glance, rules.read, signature_of(rules, turn))
    except UNREADABLE:
        with pytest.raises(UNREADABLE):
            rules.read(turn)
        return

    if told is not None:
        assert rules.read(turn) == (told, turn)


@pytest.mark.parametrize("wire", GLANCED)
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_a_plain_text_is_told_at_a_glance(wire: str, role: str) -> None:
    rules = GLANCED[wire]
    turn = json.dumps({"role": role, "content": "words"}).encode()

    told = glance_at(rules.glance, rules.read, signature_of(rules, turn))

    assert told == Peek(role, is_fresh=role == "user", opens_calls=False)


def agent(*kinds: str) -> bytes:
    blocks = [{"type": kind, "text": "a", "input": {"a": 1}} for kind in kinds]
    return json.dumps({"role": "assistant", "content": blocks}).encode()


@pytest.mark.parametrize(
    ("turn", "is_told"),
    [
        (agent("tool_use"), True),
        (agent("text", "tool_use"), True),
        (agent("thinking", "text", "tool_use"), True),
        (agent("text", "text"), True),
        (agent(), True),
        (agent("text"), False),
        (agent("tool_use").replace(b'"a": 1', b'"cache_control": 1'), False),
        (agent("tool_use").replace(b'"type"', b'"typ\\u0065"'), False),
        (agent("tool_use").replace(b'tool_use"', b'tool\\u005fuse"'), False),
        (agent("tool_use").replace(b'"text"', b'"type"'), False),
        (agent("tool_use").replace(b'"tool_use"', b"7"), False),
    ],
)
def test_blocks_are_told_at_a_glance_unless_they_are_odd_or_one_text(
    turn: bytes, is_told: bool
) -> None:
    rules = GLANCED["anthropic"]

    told = glance_at(rules.glance, rules.read, signature_of(rules, turn))

    assert (told is not None) is is_told
    if told is not None:
        assert rules.read(turn) == (told, turn)


@pytest.mark.parametrize(
    "turn",
    [
        b'{"role":"sage","content":"a"}',
        b'{"role":7,"content":"a"}',
        b'{"content":"a"}',
        b'{"role":"user","content":"a","content":"b"}',
        b'{"role":"user","role":"assistant","content":"a"}',
        b'{"role":"user","c\\u006fntent":"a"}',
        b'{"role":"us\\u0065r","content":"a"}',
        b"{}",
        b'["role"]',
        b'{"role":"user","content":[7]}',
        b'"role"',
    ],
)
def test_what_is_odd_is_not_glanced_at(turn: bytes) -> None:
    rules = GLANCED["openai_chat"]

    signature = signature_of(rules, turn)

    assert signature == UNCLEAR
    assert glance_at(rules.glance, rules.read, signature) is None


def test_where_there_is_nothing_to_look_at_all_is_read() -> None:
    body = b'{"contents":[{"role":"user","parts":[]}]}'
    scanner = load_scanner()
    assert scanner is not None

    found = scanner.scan(body, 0, 0, b"contents", *NO_GLANCE.spec, 0)

    assert found is not None
    assert found[4] == ()
