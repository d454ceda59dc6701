import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Edit,
    Envelope,
    NotLifted,
    lift,
    lower,
    project,
)
from deuz_compiler.wires import scanning
from deuz_compiler.wires.envelope import NO_FACTS, PathFacts
from deuz_compiler.wires.members import BOM
from deuz_compiler.wires.scanning import quick_tokens
from deuz_testing.bodies import (
    anthropic_body,
    compact,
    odd_bodies,
    user,
)
from deuz_testing.checkpoints import checkpoint_of, goes_on

MARK = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "a"}
WIRES = st.sampled_from(["anthropic", "openai_chat"])


def no_parts(wire: str, raw: bytes, part: int) -> tuple[int, int]:
    raise AssertionError("nothing is pruned here")


def raw_turns(envelope: Envelope) -> list[bytes]:
    return [envelope.body[t.start : t.end] for t in envelope.turns]


@given(odd_bodies(), WIRES)
def test_parts_of_an_odd_body_are_what_json_reads(body: bytes, wire: str) -> None:
    whole = json.loads(body.removeprefix(BOM))

    envelope = lift(wire, body)

    assert [json.loads(raw) for raw in raw_turns(envelope)] == whole["messages"]
    assert envelope.model == "m-1"
    assert (envelope.tools is None) == (whole.get("tools") is None)
    assert envelope.max_output_tokens == whole["max_tokens"]
    history = body[envelope.history.start : envelope.history.end]
    assert json.loads(history) == whole["messages"]


@given(odd_bodies(), WIRES, st.sampled_from(["turn", "part"]), st.data())
def test_a_body_less_what_was_added_is_the_body(
    body: bytes, wire: str, form: str, data: st.DataObject
) -> None:
    envelope = lift(wire, body)
    fresh = [i for i, turn in enumerate(envelope.turns) if turn.is_fresh]
    chosen = data.draw(st.sets(st.sampled_from(fresh))) if fresh else set()
    operations = {i: (Append(b"added \\n text", (), 3, form),) for i in chosen}

    edits = project(envelope, operations, no_parts).edits
    out = lower(body, edits)

    assert json.loads(out.removeprefix(BOM))
    rest = out
    # Taken out from the end on, so that the places before stay where they are.
    for edit, moved in reversed(list(zip(edits, moves_of(edits), strict=True))):
        at = edit.start + moved
        assert edit.start == edit.end
        assert out[at : at + len(edit.text)] == edit.text
        rest = rest[:at] + rest[at + len(edit.text) :]
    assert rest == body
    assert bool(edits) == bool(chosen)


def moves_of(edits: tuple[Edit, ...]) -> list[int]:
    return [sum(len(e.text) for e in edits[:i]) for i in range(len(edits))]


def test_without_additions_the_very_same_object_goes_out() -> None:
    body = anthropic_body([user("hi")])

    assert lower(body, project(lift("anthropic", body), {}, no_parts).edits) is body


@given(odd_bodies(), odd_bodies(), WIRES)
def test_a_resumed_lift_is_the_lift_of_the_whole(
    first: bytes, second: bytes, wire: str
) -> None:
    envelope = lift(wire, first, seed=7)
    checkpoint = checkpoint_of(envelope, seed=7)
    # The next request of the conversation: the old turns, then those of another body.
    more = b"".join(b" , " + raw for raw in raw_turns(lift(wire, second)))
    end = envelope.history.end - 1
    grown = first[:end] + more + first[end:]

    assert goes_on(grown, checkpoint)
    assert lift(wire, grown, seed=7, known=checkpoint) == lift(wire, grown, seed=7)


BEHIND = (b"", b',"stream":true,"tools":[]')
ON_PATH = PathFacts("c", is_streamed=True)
OPEN = b'{"model":"m","max_tokens":7,"messages":[{"role":"user","content":"a"}'
MORE = b',{"role":"user","content":"b"}'


@pytest.mark.parametrize("earlier", BEHIND)
@pytest.mark.parametrize("later", BEHIND)
@pytest.mark.parametrize(
    "paths", [(NO_FACTS, NO_FACTS), (ON_PATH, NO_FACTS), (NO_FACTS, ON_PATH)]
)
def test_what_no_known_start_tells_is_told_anew(
    earlier: bytes, later: bytes, paths: tuple[PathFacts, PathFacts]
) -> None:
    first, grown = OPEN + b"]" + earlier + b"}", OPEN + MORE + b"]" + later + b"}"
    known = checkpoint_of(lift("openai_chat", first, path=paths[0]))

    found = lift("openai_chat", grown, known=known, path=paths[1])

    assert found == lift("openai_chat", grown, path=paths[1])


def test_what_a_known_start_tells_alone_is_taken_over() -> None:
    known = checkpoint_of(lift("openai_chat", OPEN + b"]}"))

    found = lift("openai_chat", OPEN + MORE + b"]}", known=known)

    assert found.facts is known.facts
    assert (found.model, found.max_output_tokens) == ("m", 7)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not json", "not_json"),
        (b'{"model":"m"}', "unknown_shape"),
        (b'{"model":"m","messages":{}}', "unknown_shape"),
        (b'{"messages":[]}', "unknown_shape"),
        (b'{"model":1,"messages":[]}', "unknown_shape"),
        (b'{"model":"m","messages":[1]}', "unknown_shape"),
        (b'{"model":"m","messages":[{"content":"x"}]}', "unknown_shape"),
        (b'{"model":"m","messages":[{"role":1}]}', "unknown_shape"),
        (b'{"model":"m","messages":[],"stream":1e999}', "unknown_shape"),
        (b'{"model":"m","messages":[],"note":"\xff"}', "not_json"),
        (b'{"model":"\xff","messages":[]}', "not_json"),
        # Half of a pair, written as UTF-8 does not allow.
        (b'{"model":"m","messages":[],"note":"\xed\xa0\x80"}', "not_json"),
        (b'{"model":"m","model":"n","messages":[]}', "duplicate_key"),
        (b'{"model":"m","messages":[],"messages":[]}', "duplicate_key"),
    ],
)
@pytest.mark.parametrize("wire", ["anthropic", "openai_chat"])
def test_what_is_not_understood_says_why(body: bytes, reason: str, wire: str) -> None:
    with pytest.raises(NotLifted, match=reason):
        lift(wire, body)


@pytest.mark.parametrize(
    ("written", "limit_tokens"),
    [
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        ("1" * 33, None),
        ("0", None),
        ("true", None),
        ('"9"', None),
    ],
)
def test_an_output_limit_that_cannot_be_one_is_none(
    written: str, limit_tokens: int | None
) -> None:
    body = b'{"model":"m","messages":[],"max_tokens":%b}' % written.encode()

    assert lift("anthropic", body).max_output_tokens == limit_tokens


@pytest.mark.parametrize("is_built", [True, False])
def test_what_is_no_text_behind_the_checkpoint_is_refused(
    is_built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_built:
        monkeypatch.setattr(scanning, "SCANNER", None)
    checkpoint = checkpoint_of(lift("anthropic", anthropic_body([user("a")])))
    broken = anthropic_body([user("a"), user("b")]).replace(b'"b"', b'"\xff"')

    with pytest.raises(NotLifted, match="not_json"):
        lift("anthropic", broken, known=checkpoint)


def test_a_model_written_with_escapes_is_the_one_it_spells() -> None:
    body = rb'{"model":"m\u002d\"1\"","messages":[]}'

    assert lift("openai_chat", body).model == 'm-"1"'


@pytest.mark.parametrize("is_built", [True, False])
@pytest.mark.parametrize("again", [b',"model":"n"}', b',"messages":{}}'])
def test_a_key_repeated_behind_the_checkpoint_is_refused(
    again: bytes, is_built: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_built:
        monkeypatch.setattr(scanning, "SCANNER", None)
    body = b'{"model":"m","messages":[{"role":"user","content":"a"}]}'
    checkpoint = checkpoint_of(lift("anthropic", body))
    twice = body[:-1] + again

    with pytest.raises(NotLifted, match="duplicate_key"):
        lift("anthropic", twice, known=checkpoint)


def test_a_wire_that_is_not_known_is_not_understood() -> None:
    with pytest.raises(NotLifted, match="unknown_shape"):
        lift("other", b"{}")


def test_embedded_pictures_are_priced_by_kind_not_by_length() -> None:
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000},
    }
    url = {"type": "image_url", "image_url": {"url": "data:x;base64," + "A" * 400_000}}
    text = {"type": "text", "text": "what is it"}

    claude = lift("anthropic", anthropic_body([{"role": "user", "content": [picture]}]))
    chat = lift(
        "openai_chat",
        compact({"model": "m", "messages": [{"role": "user", "content": [text, url]}]}),
    )

    assert 1600 <= claude.turns[0].tokens < 1700
    assert 1600 < chat.turns[0].tokens < 1700


@pytest.mark.parametrize("size", [16_000, 16_384, 17_000])
def test_a_picture_behind_a_known_start_is_priced_as_in_the_whole(size: int) -> None:
    known = checkpoint_of(lift("openai_chat", OPEN + b"]}"))
    frame = b'{"type":"image_url","image_url":{"url":"data:x;base64,%b"}}'
    turn = b',{"role":"user","content":[%b]}' % frame
    grown = OPEN + turn % (b"A" * (size - len(turn) + 3)) + b"]}"

    found = lift("openai_chat", grown, known=known)

    assert found == lift("openai_chat", grown)
    assert (found.turns[1].tokens > 2_000) is (size <= 16_384)


@pytest.mark.parametrize("words", [[4_000, 1], [100] * 60])
def test_text_counts_by_its_length_in_short_turns_and_long_ones(
    words: list[int],
) -> None:
    turns = lift("anthropic", anthropic_body([user("word " * n) for n in words])).turns

    assert [turn.tokens for turn in turns] == [
        quick_tokens(turn.end - turn.start) for turn in turns
    ]


def test_long_text_that_only_speaks_of_base64_is_priced_by_length() -> None:
    body = anthropic_body([user("base64 " * 4000)])

    assert lift("anthropic", body).turns[0].tokens > 3000


@given(odd_bodies(), st.sampled_from(["anthropic", "openai_chat", "ollama_chat"]))
def test_a_body_is_lifted_alike_with_the_compiled_scanner_and_without(
    body: bytes, wire: str
) -> None:
    built = lift(wire, body, seed=7)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "SCANNER", None)
        assert lift(wire, body, seed=7) == built


def test_an_agents_history_is_lifted_alike_too() -> None:
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {"a": [1]}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [TEXT]}
    marked = {**TEXT, **MARK}
    contents = [
        *([TEXT], [TEXT, call], [result], [result, TEXT], [marked], [], "a"),
        *([{**result, "content": [marked]}], [{"type": "thinking"}, TEXT, call]),
        *([{"type": "image"}], [{"type": "document"}, TEXT], [TEXT, TEXT], [{}]),
    ]
    messages = [
        {"role": role, "content": content}
        for role in ("user", "assistant")
        for content in contents
    ]
    body = anthropic_body(messages)

    built = lift("anthropic", body, seed=7)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanning, "SCANNER", None)
        assert lift("anthropic", body, seed=7) == built
