"""Request bodies of the benchmark: chat histories of an agent that grow step by step.

Rules:
- A template has three parts, separated by a NUL byte: the opening with the history, one
  more step, the close. The load generator joins them.
- A placed one has ten steps more: at each, a question that a note of its own answers,
  the compile subject adds a block. What follows are an agent's calls and their results.
- Sixteen `@` are a slot that the generator fills with a number of its own, in every
  message: a new conversation has no message in common with an older one.
- Bodies are the same in every run.
"""

import json
import random

WORDS = tuple(
    """
    cache prefix turn request answer token path file error line test build review
    change summary window history provider model budget record source block place
    stream event chunk header socket worker thread queue value field schema index
    """.split()  # noqa: SIM905  # A list of forty strings reads worse.
)
SLOT = "@" * 16
STEP_BYTES = 2_000
PLACED_STEPS = 10
_CLOSE = "]}"

# Rounds of user, tool call, tool result and answer, and the size of a tool result.
HISTORIES = {
    "2k": (0, 0),
    "100k": (15, 4_900),
    "100k-calls": (52, 380),
    "1m": (150, 6_000),
}


def write_prose(rng: random.Random, length: int) -> str:
    """Return text with the escapes of real histories: newlines, quotes, non-ASCII."""
    words: list[str] = []
    total = 0
    while total < length:
        word = rng.choice(WORDS)
        mood = rng.random()
        if mood < 0.04:
            word = f'"{word}"'
        elif mood < 0.07:
            word += "\n"
        elif mood < 0.08:
            word = "größer → 42 €"
        words.append(word)
        total += len(word) + 1
    return " ".join(words)[:length]


def make_template(size: str) -> bytes:
    """Return the template of a chat body of about `size` with its first step."""
    rng = random.Random(size)
    rounds, result_length = HISTORIES[size]
    # The opening ends with a user's turn: each step is an answer and a new turn.
    history: list[dict[str, object]] = [_user(rng, 200)]
    for number in range(rounds):
        history += _round(rng, number, result_length)
    step = [_assistant(rng, 800), _user(rng, 1_000)]
    system_length = 6_000
    if not rounds:
        history, step, system_length = [], [_user(rng, 900)], 800
    opening = _open(rng, history, system_length)
    return "\0".join((opening, "," + _join(step), _CLOSE)).encode()


def make_placed(size: str) -> bytes:
    """Return the template of a body of about `size`, once its questions are asked."""
    rng = random.Random(f"{size} placed")
    rounds, result_length = HISTORIES[size]
    history: list[dict[str, object]] = [_user(rng, 60)]
    for number in range(rounds):
        history += _round(rng, number, result_length)
    steps = [[_assistant(rng, 60), _ask(100 + n)] for n in range(PLACED_STEPS)]
    steps.append(_round(rng, rounds, 1_700 if rounds else 100)[:2])
    opening = _open(rng, history, 6_000 if rounds else 300)
    return "\0".join((opening, *("," + _join(s) for s in steps), _CLOSE)).encode()


def _open(
    rng: random.Random, history: list[dict[str, object]], system_length: int
) -> str:
    head: dict[str, object] = {"model": "bench", "max_tokens": 1024}
    if len(history) > 1:
        head["tools"] = [_tool(rng, number) for number in range(12)]
    system: dict[str, object] = {
        "role": "system",
        "content": write_prose(rng, system_length),
    }
    return _dump(head)[:-1] + ',"messages":[' + _join([system, *history])


def make_streamed(template: bytes) -> bytes:
    """Return the template with streaming and its usage asked for."""
    asked = b'"stream":true,"stream_options":{"include_usage":true},"messages":['
    return template.replace(b'"messages":[', asked, 1)


def make_documents(count: int) -> list[str]:
    """Return Markdown documents for the compile subject to search in."""
    rng = random.Random("documents")
    return [
        f"# Note {number} on {rng.choice(WORDS)}\n\n{write_prose(rng, 700)}\n"
        for number in range(count)
    ]


def _user(rng: random.Random, length: int) -> dict[str, object]:
    return {"role": "user", "content": f"{SLOT} {write_prose(rng, length)}"}


def _ask(note: int) -> dict[str, object]:
    return {"role": "user", "content": f"{SLOT} What does note {note} say about it?"}


def _assistant(rng: random.Random, length: int) -> dict[str, object]:
    return {"role": "assistant", "content": f"{SLOT} {write_prose(rng, length)}"}


def _round(
    rng: random.Random, number: int, result_length: int
) -> list[dict[str, object]]:
    call_id = f"call_{number:04d}_{SLOT}"
    arguments = json.dumps({"path": f"src/part_{number}.py", "limit": 200})
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": "tool_1", "arguments": arguments},
    }
    result = f"{SLOT} {write_prose(rng, result_length)}"
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
        _assistant(rng, 500),
        _user(rng, 300),
    ]


def _tool(rng: random.Random, number: int) -> dict[str, object]:
    properties: dict[str, object] = {
        "path": {"type": "string", "description": write_prose(rng, 80)},
        "limit": {"type": "integer", "description": write_prose(rng, 60)},
    }
    return {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": write_prose(rng, 300),
            "parameters": {"type": "object", "properties": properties},
        },
    }


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _join(messages: list[dict[str, object]]) -> str:
    return ",".join(_dump(message) for message in messages)
