"""Tell a request by which a client has its own history condensed.

Rules:
- It is told by what known clients write: in the newest turn where the history stands
  before it, in the system text where it is quoted in one turn.
- A tool's result asks nothing, whatever it quotes.
- A history that was condensed is a new one: what an older turn says of it counts not.
- Who is taken for such a client only by quoting one gets no new context for that turn,
  and loses nothing else.
"""

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.scanner import holds

# As of the clients' sources: a word of theirs that nobody else asks a question with.
_ASKING = (
    # Claude Code, and agents that took over its words.
    b"Your task is to create a detailed summary of ",
    # Codex.
    b"You are performing a CONTEXT CHECKPOINT COMPACTION",
    # opencode, its older releases and its newer ones.
    b"Provide a detailed prompt for continuing our conversation",
    b"Create a new anchored summary from the conversation history",
    b"Update the anchored summary below using the conversation history",
    # aider, as the system text.
    b"summarize this partial conversation about",
)
_WORDS = b"".join([words + b"\0" for words in _ASKING])
# At either end of a text: such a request may quote a whole history, and costs no more.
_END_BYTES = 16_384
# Whose turn is no client's own words.
_UNASKING = "tool"


def asks_to_condense(envelope: Envelope, *, since: int = 0) -> bool:
    """Tell whether the answer is to stand for the history in later requests.

    Of system text up to the place `since`, which is behind leading turns where it is
    behind anything, it is known that it does not ask.
    """
    body, turns, lead = envelope.body, envelope.turns, envelope.lead
    last = len(turns.kinds) - 1
    is_asked = last >= lead and turns.peeks[turns.kinds[last]].role != _UNASKING
    if is_asked and _is_asking(body, *turns.place(last)):
        return True
    system = envelope.system
    if (
        system is not None
        and system.end > since
        and _is_asking(body, system.start, system.end)
    ):
        return True
    if since or not lead:
        return False
    return any(_is_asking(body, *turns.place(at)) for at in range(lead))


def _is_asking(body: bytes, start: int, end: int) -> bool:
    if end - start > 2 * _END_BYTES:
        ends = ((start, start + _END_BYTES), (end - _END_BYTES, end))
        return any(_is_asking(body, *place) for place in ends)
    return holds(body, start, end, _WORDS)
