from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import Progress, chain, lift, plain_prefix, progress_of, resume
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    odd_bodies,
    user,
)

ROOT = bytes(range(16))
WIRES = st.sampled_from(["anthropic", "openai_chat"])


def progress(wire: str, body: bytes) -> Progress:
    envelope = lift(wire, body, seed=7)
    keys = chain(envelope, root=ROOT)
    return progress_of(envelope, keys, plain_prefix(envelope), seed=7)


def grown_from(wire: str, first: bytes, second: bytes) -> bytes:
    """Return the first body with the turns of the second behind its own."""
    other = lift(wire, second)
    more = b"".join(b", " + second[turn.start : turn.end] for turn in other.turns)
    end = lift(wire, first).history.end - 1
    return first[:end] + more + first[end:]


@given(odd_bodies(), odd_bodies(), odd_bodies(), WIRES)
def test_what_is_gone_on_with_is_what_reading_anew_gives(
    first: bytes, second: bytes, third: bytes, wire: str
) -> None:
    body = first
    known = progress(wire, first)
    for more in (second, third):
        body = grown_from(wire, body, more)
        resumed = resume(known, body)
        assert resumed is not None
        envelope = lift(wire, body, seed=7, known=known.checkpoint)

        keys = chain(envelope, root=ROOT, known=known.keys)
        prefix = plain_prefix(envelope, known.shared)
        known = progress_of(envelope, keys, prefix, seed=7, resumed=resumed)

        assert known == progress(wire, body)


def test_a_body_that_starts_otherwise_is_not_resumed() -> None:
    known = progress("anthropic", anthropic_body([user("a")]))

    assert resume(known, anthropic_body([user("b"), assistant("c")])) is None


def test_leading_system_turns_are_taken_over_only_while_they_are_the_same() -> None:
    rule = {"role": "system", "content": "be brief"}
    plain = chat_body([rule, user("a")])
    known = progress("openai_chat", plain)
    grown = grown_from("openai_chat", plain, chat_body([user("more")]))

    envelope = lift("openai_chat", grown, seed=7, known=known.checkpoint)
    prefix = plain_prefix(envelope, known.shared)

    assert prefix.system is known.shared.prefix.system
    assert prefix == plain_prefix(envelope)


def test_a_system_turn_behind_nothing_but_system_turns_is_one_of_them() -> None:
    rule = {"role": "system", "content": "be brief"}
    plain = chat_body([rule])
    known = progress("openai_chat", plain)
    grown = grown_from("openai_chat", plain, chat_body([rule, user("a")]))

    envelope = lift("openai_chat", grown, seed=7, known=known.checkpoint)

    assert plain_prefix(envelope, known.shared) == plain_prefix(envelope)
