from typing import Any

import pytest

from deuz_compiler import asks_to_condense, lift
from deuz_testing.bodies import anthropic_body, assistant, chat_body, user

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
