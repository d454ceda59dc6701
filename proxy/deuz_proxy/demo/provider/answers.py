"""The model behind the fake provider: short, deterministic, polite.

Rules:
- The answer depends on the model's name, on how many assistant turns there are, and on
  the first line of the first fresh user text; so it is the same with and without
  context that was added behind the user's words, and never repeats any of it.
- A model calls tools when its name says `tools`, or when the request demands it, and
  only on fresh user text; the result of a call is answered with text.
"""

import hashlib
from dataclasses import replace

from deuz_proxy.demo.provider.exchange import (
    Answer,
    Ask,
    Part,
    ProviderRequest,
    Refusal,
    Reply,
    Text,
    Thinking,
    ToolCall,
)
from deuz_proxy.demo.provider.fields import compact
from deuz_proxy.demo.provider.specimen import make_arguments, make_specimen
from deuz_proxy.demo.provider.tokens import clip_text, count_text
from deuz_proxy.demo.provider.traits import behaviours

LINE_CHARACTERS = 200
SLOW_SECONDS = 0.05
CUT_EVENTS = 4  # Late enough for content, too early for usage.
_FORCED = {"any", "required"}


def compose_answer(request: ProviderRequest, ask: Ask) -> Answer:
    """Return what the named model says to this request."""
    words = behaviours(request.model)
    if "error" in words:
        status = words["error"] or 500
        return Refusal("model_name", "The model was asked to fail.", status=status)
    parts = _parts(request, ask, words)
    reply = Reply(parts=parts, stop=_stop(words))
    if "slow" in words:
        reply = replace(
            reply, first_byte_seconds=SLOW_SECONDS, pause_seconds=SLOW_SECONDS
        )
    return replace(reply, cut_after=CUT_EVENTS) if "cut" in words else reply


def fit_reply(reply: Reply, *, limit: int | None, room: int) -> Reply:
    """Shorten the text to the output limit and to the room left in the window.

    Calls stay whole: half a call is nothing a client could be tested with.
    """
    allowed = room if limit is None else min(limit, room)
    has_text = any(isinstance(part, Text) for part in reply.parts)
    if not has_text or count_output(reply) <= allowed:
        return reply
    left = allowed - sum(
        _part_tokens(p) for p in reply.parts if not isinstance(p, Text)
    )
    parts: list[Part] = []
    for part in reply.parts:
        if isinstance(part, Text):
            clipped = clip_text(part.text, left)
            left -= count_text(clipped)
            parts.append(Text(clipped))
        else:
            parts.append(part)
    stop = "length" if limit is not None and limit <= room else "window"
    return replace(reply, parts=tuple(parts), stop=stop)


def count_output(reply: Reply) -> int:
    """Return the tokens of all parts."""
    return sum(_part_tokens(part) for part in reply.parts)


def count_reasoning(reply: Reply) -> int:
    """Return the tokens of the thinking parts."""
    return sum(_part_tokens(p) for p in reply.parts if isinstance(p, Thinking))


def stop_of(reply: Reply) -> str:
    """Return why the answer ended."""
    if reply.stop:
        return reply.stop
    return "tool" if any(isinstance(p, ToolCall) for p in reply.parts) else "end"


def digest_of(request: ProviderRequest, ask: Ask) -> str:
    """Return eight characters that stand for the question."""
    line = ask.line.split("\n", 1)[0][:LINE_CHARACTERS]
    question = compact([request.model, ask.assistant_turns, line])
    return hashlib.blake2b(
        question.encode("utf-8", "surrogatepass"), digest_size=4
    ).hexdigest()


def _parts(
    request: ProviderRequest, ask: Ask, words: dict[str, int]
) -> tuple[Part, ...]:
    digest = digest_of(request, ask)
    parts: list[Part] = []
    if "thinking" in words or ask.wants_thinking:
        parts.append(Thinking(f"Thinking about {digest}."))
    calls = _calls(request, ask, words, digest)
    if calls:
        return (*parts, *calls)
    if "blank" in words:
        return (*parts, Text(""))
    if ask.schema is not None:
        return (*parts, Text(compact(make_specimen(ask.schema))))
    turn = ask.assistant_turns + 1
    return (*parts, Text(f"Answer {digest}: turn {turn} was read and understood."))


def _calls(
    request: ProviderRequest, ask: Ask, words: dict[str, int], digest: str
) -> list[ToolCall]:
    tools = dict(ask.tools)
    is_forced = ask.choice in _FORCED or ask.choice in tools
    may_call = is_forced or ("tools" in words and ask.choice != "none")
    if not tools or not may_call or (ask.is_continuation and not is_forced):
        return []
    name = ask.choice if ask.choice in tools else next(iter(tools))
    count = max(words.get("tools", 1), 1)
    return [
        ToolCall(
            name,
            make_arguments(tools[name]),
            call_id=_free_id(request, f"{digest}{number:02d}"),
        )
        for number in range(count)
    ]


def _free_id(request: ProviderRequest, wish: str) -> str:
    # A folded history can make an old question look new: ids must stay unique.
    taken = request.body
    call_id, attempt = wish, 0
    while call_id.encode() in taken:
        attempt += 1
        call_id = f"{wish}x{attempt}"
    return call_id


def _stop(words: dict[str, int]) -> str:
    return next((word for word in ("length", "refusal") if word in words), "")


def _part_tokens(part: Part) -> int:
    if isinstance(part, ToolCall):
        return count_text(part.name) + count_text(compact(part.arguments))
    return count_text(part.text)
