"""How text that the sidecar wrote is told from what a user wrote.

Rules:
- Our blocks and summaries never count as the user's words: not for a query, not in a
  transcript, not as the question that must survive a compaction.
- Only a whole block of ours is taken for ours. A user may quote half of one, or speak
  about it.
"""

BLOCK_TAG = "deuz_context"
TAIL_TAG = "deuz_working_memory"
SUMMARY_MARKER = "[Earlier turns of this conversation, condensed by deuz-sidecar]"
QUESTION_MARKER = "The user's newest request, word for word:"

_OPENINGS = ((f"<{BLOCK_TAG} ", f"</{BLOCK_TAG}>"), (f"<{TAIL_TAG} ", f"</{TAIL_TAG}>"))


def without_own_blocks(text: str) -> str:
    """Return the text with whole blocks of ours and the blanks around them cut out."""
    if "<deuz_" not in text:
        return text
    return "\n\n".join(
        piece for piece in map(str.strip, _outside_blocks(text)) if piece
    )


def is_own_text(text: str) -> bool:
    """Tell whether there is nothing but what the sidecar wrote."""
    is_block = "<deuz_" in text and not without_own_blocks(text)
    return is_block or summary_body(text) is not None


def summary_body(text: str) -> str | None:
    """Return what a summary of ours says, or None if the text is no such summary."""
    if not text.startswith(SUMMARY_MARKER + "\n"):
        return None
    return text[len(SUMMARY_MARKER) :].strip("\n")


def split_question(body: str) -> tuple[str, str]:
    """Return a summary's notes and the question that it repeats, "" if it has none."""
    notes, _, question = body.partition(f"\n\n{QUESTION_MARKER}\n")
    return notes, question


def _outside_blocks(text: str) -> list[str]:
    pieces = [text]
    for opener, closer in _OPENINGS:
        pieces = [part for piece in pieces for part in _cut(piece, opener, closer)]
    return pieces


def _cut(text: str, opener: str, closer: str) -> list[str]:
    """Return what is left around the blocks; one pass, however hostile the text."""
    pieces = []
    position = 0
    while (start := text.find(opener, position)) >= 0:
        # Text inside a block cannot hold a closer, so the nearest one is its own.
        end = text.find(closer, start)
        if end < 0:
            break
        pieces.append(text[position:start])
        position = end + len(closer)
    pieces.append(text[position:])
    return pieces
