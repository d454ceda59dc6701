from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deuz_compiler import asks_to_condense, lift
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    chat_call,
    chat_result,
    tool_result,
    tool_use,
    user,
)

CLAUDE = (
    "CRITICAL: Respond with TEXT ONLY.\n\nYour task is to create a detailed summary of "
    "the conversation so far, paying close attention to requests."
)
CODEX = "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary."
OPENCODE = "Create a new anchored summary from the conversation history above."
OLDER_OPENCODE = "Provide a detailed prompt for continuing our conversation above."
UPDATE = "Update the anchored summary below using the conversation history above."
AIDER = "*Briefly* summarize this partial conversation about programming."
TALK = [user("how far?"), assistant("Far.")]


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


@pytest.mark.parametrize("words", [CLAUDE, CODEX, OPENCODE, OLDER_OPENCODE, UPDATE])
def test_known_clients_ask_in_the_newest_turn(words: str) -> None:
    asked = [*TALK, user(words)]

    assert asks_to_condense(lift("anthropic", anthropic_body(asked)))
    assert asks_to_condense(lift("openai_chat", chat_body(asked)))


def test_the_system_text_asks_where_the_history_is_quoted() -> None:
    quoted = [user("# USER\nhow far?\n# ASSISTANT\nFar.")]

    assert asks_to_condense(lift("openai_chat", chat_body([system(AIDER), *quoted])))
    body = anthropic_body(quoted, system=AIDER)
    assert asks_to_condense(lift("anthropic", body))


@pytest.mark.parametrize(
    "turns",
    [
        TALK,
        [*TALK, user("Please summarize what we have.")],
        [*TALK, user(CLAUDE), assistant("Notes."), user("go on")],
        [],
    ],
)
def test_other_requests_do_not(turns: list[Any]) -> None:
    assert not asks_to_condense(lift("anthropic", anthropic_body(turns)))


@pytest.mark.parametrize("text", [f"{CODEX} {'x' * 40_000}", f"{'x' * 40_000} {CODEX}"])
def test_the_words_are_looked_for_at_both_ends_of_a_long_turn(text: str) -> None:
    assert asks_to_condense(lift("anthropic", anthropic_body([*TALK, user(text)])))


def test_a_tools_result_that_quotes_the_words_does_not_ask() -> None:
    turns = [*TALK, chat_call("t1"), chat_result("t1", CLAUDE)]

    assert not asks_to_condense(lift("openai_chat", chat_body(turns)))


def test_the_words_behind_a_result_in_one_turn_ask() -> None:
    result = tool_result("t1", "found")
    asked = {**result, "content": [*result["content"], {"type": "text", "text": CODEX}]}

    assert asks_to_condense(
        lift("anthropic", anthropic_body([user("go"), tool_use("t1"), asked]))
    )


@given(
    st.lists(st.sampled_from(["Be brief.", AIDER]), max_size=3),
    st.lists(st.sampled_from(["go on", CODEX]), max_size=3),
    st.booleans(),
    st.integers(0, 600),
)
def test_system_text_that_does_not_ask_need_not_be_looked_at_again(
    leading: list[str], texts: list[str], is_member: bool, since: int
) -> None:
    turns = [user(text) for text in texts]
    body = chat_body([*map(system, leading), *turns])
    if is_member:
        body = anthropic_body(turns, system=" ".join(leading))
    envelope = lift("anthropic" if is_member else "openai_chat", body)
    places = [envelope.turns.place(at) for at in range(envelope.lead)]
    assume(since == 0 or not places or places[-1][1] <= since)
    if envelope.system is not None:
        places.append((envelope.system.start, envelope.system.end))
    known = [body[start:end] for start, end in places if end <= since]
    assume(not any(AIDER.encode() in text for text in known))

    assert asks_to_condense(envelope, since=since) == asks_to_condense(envelope)
