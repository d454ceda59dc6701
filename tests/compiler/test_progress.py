import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deuz_compiler import (
    NotLifted,
    Resumed,
    chain,
    kept_seconds,
    lift,
    plain_prefix,
    progress_of,
    progress_up_to,
    starts_of,
)
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    compact,
    odd_bodies,
    user,
)
from deuz_testing.checkpoints import ROOT, progress_in

WIRES = st.sampled_from(["anthropic", "openai_chat"])


def grown_from(wire: str, first: bytes, second: bytes) -> bytes:
    """Return the first body with the turns of the second behind its own."""
    other = lift(wire, second)
    more = b"".join(b", " + second[turn.start : turn.end] for turn in other.turns)
    end = lift(wire, first).history.end - 1
    return first[:end] + more + first[end:]


# Three bodies an example: as many as usual would take half a minute in CI.
@settings(max_examples=60)
@given(odd_bodies(), odd_bodies(), odd_bodies(), WIRES)
def test_what_is_gone_on_with_is_what_reading_anew_gives(
    first: bytes, second: bytes, third: bytes, wire: str
) -> None:
    body = first
    known = progress_in(wire, first)
    for more in (second, third):
        body = grown_from(wire, body, more)
        starts = starts_of(ROOT, body)
        assert starts.goes_on(known.checkpoint.offset, known.checkpoint.digest)
        envelope = lift(wire, body, seed=7, known=known.checkpoint)

        keys = chain(envelope, root=ROOT, known=known.keys)
        prefix = plain_prefix(envelope, known.shared)
        known = progress_of(
            envelope, keys, prefix, starts=starts, seed=7, resumed=Resumed(known)
        )

        assert known == progress_in(wire, body)


# As above. An answer that is asked for again goes on from where the body stood before.
@settings(max_examples=60)
@given(odd_bodies(), odd_bodies(), odd_bodies(), WIRES)
def test_what_goes_on_from_an_earlier_place_is_what_reading_anew_gives(
    first: bytes, second: bytes, other: bytes, wire: str
) -> None:
    before = progress_in(wire, first)
    later = progress_in(wire, grown_from(wire, first, second))
    place = before.checkpoint
    known = progress_up_to(
        later, len(before.keys), offset=place.offset, digest=place.digest
    )

    body = grown_from(wire, first, other)
    envelope = lift(wire, body, seed=7, known=known.checkpoint)

    assert known.keys == before.keys
    assert known.checkpoint == place
    assert envelope == lift(wire, body, seed=7)
    keys = chain(envelope, root=ROOT, known=known.keys)
    prefix = plain_prefix(envelope, known.shared)
    starts = starts_of(ROOT, body)
    assert progress_in(wire, body) == progress_of(
        envelope, keys, prefix, starts=starts, seed=7, resumed=Resumed(known)
    )


def test_a_marker_that_was_not_looked_at_in_a_longer_history_is_found() -> None:
    block = {"type": "text", "text": "m", "cache_control": {"type": "ephemeral"}}
    marked = {"role": "user", "content": [block]}
    turns = [user("a"), marked, *[assistant("x"), user("y")] * 4]
    known = progress_in("anthropic", anthropic_body([*turns[:-1], marked]))
    shorter = anthropic_body(turns[:9])
    envelope = lift("anthropic", shorter, seed=7, known=known.checkpoint)

    found = progress_of(
        envelope,
        chain(envelope, root=ROOT, known=known.keys),
        plain_prefix(envelope, known.shared),
        starts=starts_of(ROOT, shorter),
        seed=7,
        resumed=Resumed(known),
    )

    assert (len(known.keys), len(found.keys)) == (9, 1)
    assert found == progress_in("anthropic", shorter)


def test_leading_system_turns_are_taken_over_only_while_they_are_the_same() -> None:
    rule = {"role": "system", "content": "be brief"}
    plain = chat_body([rule, user("a")])
    known = progress_in("openai_chat", plain)
    grown = grown_from("openai_chat", plain, chat_body([user("more")]))

    envelope = lift("openai_chat", grown, seed=7, known=known.checkpoint)
    prefix = plain_prefix(envelope, known.shared)

    old = known.shared.prefix
    assert (prefix.system is old.system, prefix.model is old.model) == (True, True)
    assert prefix == plain_prefix(envelope)


def test_a_system_turn_behind_nothing_but_system_turns_is_one_of_them() -> None:
    rule = {"role": "system", "content": "be brief"}
    plain = chat_body([rule])
    known = progress_in("openai_chat", plain)
    grown = grown_from("openai_chat", plain, chat_body([rule, user("a")]))

    envelope = lift("openai_chat", grown, seed=7, known=known.checkpoint)

    assert plain_prefix(envelope, known.shared) == plain_prefix(envelope)


RULE, ASKED = {"role": "system", "content": "be brief"}, user("a")
ASKED_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "a"}]}]}
INSTRUCTED = {"model": "m", "input": [RULE, ASKED], "instructions": "x"}


@pytest.mark.parametrize(
    ("wire", "first", "second"),
    [
        pytest.param(
            "openai_responses",
            compact(INSTRUCTED),
            compact({**INSTRUCTED, "instructions": None}),
            id="instructions behind the history are gone",
        ),
        pytest.param(
            "openai_responses",
            compact({**INSTRUCTED, "instructions": None}),
            compact(INSTRUCTED),
            id="instructions behind the history are new",
        ),
        pytest.param(
            "openai_chat",
            chat_body([RULE, ASKED], **{"": "x"}),
            chat_body([RULE, ASKED]),
            id="a member without a name is no system text",
        ),
        pytest.param(
            "gemini",
            compact(
                {"options.num_ctx": 7, "generationConfig.maxOutputTokens": 9}
                | ASKED_GEMINI
            ),
            compact(
                {"options.num_ctx": 7, "generationConfig.maxOutputTokens": 9}
                | ASKED_GEMINI
                | {"generation_config": {"maxOutputTokens": 3}}
            ),
            id="a dot in a name says nothing",
        ),
        pytest.param(
            "openai_chat",
            chat_body([ASKED]),
            chat_body([ASKED], h=1, messages_=1),
            id="a member is named like none of ours",
        ),
    ],
)
def test_members_behind_the_history_are_read_anew(
    wire: str, first: bytes, second: bytes
) -> None:
    known = progress_in(wire, first)

    resumed = lift(wire, second, seed=7, known=known.checkpoint)

    assert resumed == lift(wire, second, seed=7)
    assert plain_prefix(resumed, known.shared) == plain_prefix(resumed)


@pytest.mark.parametrize("slip", [b".5", b"0", b"e5", b"{}", b",", b", "])
def test_a_slip_behind_a_known_turn_is_no_json(slip: bytes) -> None:
    known = progress_in("anthropic", anthropic_body([user("a")]))
    broken = anthropic_body([user("a")]).replace(b"}]", b"}" + slip + b"]")

    with pytest.raises(NotLifted, match="not_json"):
        lift("anthropic", broken, known=known.checkpoint)


@pytest.mark.parametrize(
    ("ahead", "first", "seconds"),
    [
        ({}, "1h", 3600.0),
        ({}, "5m", 300.0),
        ({"prompt_cache_retention": "24h"}, "1h", 86_400.0),
    ],
)
def test_a_cache_is_kept_as_long_as_is_asked_ahead_or_by_a_newest_turn(
    ahead: dict[str, object], first: str, seconds: float
) -> None:
    marker = {"type": "ephemeral", "ttl": first}
    marked = [{"type": "text", "text": "a", "cache_control": marker}]
    turns = [user("q"), {"role": "user", "content": marked}]
    body = compact({**ahead, "model": "m", "max_tokens": 9, "messages": turns})

    known = progress_in("anthropic", body)

    assert kept_seconds(lift("anthropic", body, seed=7), known) == seconds
