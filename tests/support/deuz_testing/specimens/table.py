"""The specimens of every wire; a wire that is not here fails the suite."""

from deuz_testing.specimens import (
    anthropic,
    gemini,
    ollama_chat,
    openai_chat,
    openai_responses,
)
from deuz_testing.specimens.form import Specimens

SPECIMENS: dict[str, Specimens] = {
    each.wire: each
    for each in (
        anthropic.SPECIMENS,
        gemini.SPECIMENS,
        ollama_chat.SPECIMENS,
        openai_chat.SPECIMENS,
        openai_responses.SPECIMENS,
    )
}
