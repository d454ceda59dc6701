"""Signed thinking on Anthropic's wire.

Rules:
- Every thinking block must carry a signature of ours over exactly its text; an empty
  text with a valid signature is not empty.
- The thinking blocks of the latest assistant turn come back all, in order, or not at
  all; older turns may lack some.
- With thinking enabled, an assistant turn in the middle of a tool exchange starts with
  a thinking block.
"""

from deuz_proxy.demo.provider.exchange import Json, Refusal
from deuz_proxy.demo.provider.fields import mapping, numbered, objects, word
from deuz_proxy.demo.provider.signing import Seal, Signer

_KINDS = {"thinking", "redacted_thinking"}


def check_thinking(payload: Json, signer: Signer) -> Refusal | None:
    """Refuse changed, foreign, missing or moved thinking blocks."""
    messages = objects(payload["messages"])
    for place, message in enumerate(messages):
        refusal = _check_signatures(place, message, signer)
        if refusal is not None:
            return refusal
    turn = _latest_turn(messages)
    return _check_whole(messages, turn, signer) or _check_start(payload, messages, turn)


def _check_signatures(place: int, message: Json, signer: Signer) -> Refusal | None:
    for number, block in numbered(message["content"]):
        kind = block["type"]
        where = f"messages.{place}.content.{number}"
        if kind not in _KINDS:
            continue
        if message["role"] != "assistant":
            return Refusal(
                "thinking_role",
                f"{where}: `{kind}` blocks can only be in `assistant` messages",
            )
        if kind == "thinking" and not isinstance(block.get("signature"), str):
            return Refusal(
                "thinking_signature", f"{where}.thinking.signature: Field required"
            )
        if _open(block, signer) is None:
            field = "signature" if kind == "thinking" else "data"
            return Refusal(
                "thinking_signature", f"{where}: Invalid `{field}` in `{kind}` block"
            )
    return None


def _latest_turn(messages: list[Json]) -> range:
    """Places of the last run of assistant messages: they count as one turn."""
    end = len(messages)
    while end and messages[end - 1]["role"] != "assistant":
        end -= 1
    start = end
    while start and messages[start - 1]["role"] == "assistant":
        start -= 1
    return range(start, end)


def _check_whole(messages: list[Json], turn: range, signer: Signer) -> Refusal | None:
    expected: Seal | None = None
    where = ""
    for place in turn:
        for number, block in numbered(messages[place]["content"]):
            if block["type"] not in _KINDS:
                continue
            seal = _open(block, signer)
            where = f"messages.{place}.content.{number}"
            if seal is None or seal != (expected or Seal(0, seal.count)):
                return _modified(where)
            expected = Seal(seal.index + 1, seal.count)
            if expected.index == seal.count:
                expected = None
    return None if expected is None else _modified(where)


def _check_start(payload: Json, messages: list[Json], turn: range) -> Refusal | None:
    if mapping(payload.get("thinking")).get("type") != "enabled" or not turn:
        return None
    blocks = [
        (place, block["type"])
        for place in turn
        for block in objects(messages[place]["content"])
    ]
    if not any(kind == "tool_use" for _, kind in blocks):
        return None
    place, kind = blocks[0]
    if kind in _KINDS:
        return None
    return Refusal(
        "thinking_first",
        f"messages.{place}.content.0.type: Expected `thinking` or "
        f"`redacted_thinking`, but found `{kind}`. When `thinking` is enabled, a final "
        "`assistant` message must start with a thinking block (preceeding the lastmost "
        "set of `tool_use` and `tool_result` blocks). We recommend you include "
        "thinking blocks from previous turns. To avoid this requirement, disable "
        "`thinking`.",
    )


def _open(block: Json, signer: Signer) -> Seal | None:
    if block["type"] == "redacted_thinking":
        return signer.unwrap(word(block.get("data")))
    return signer.open(word(block.get("thinking")), word(block.get("signature")))


def _modified(where: str) -> Refusal:
    return Refusal(
        "thinking_modified",
        f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant "
        "message cannot be modified. These blocks must remain as they were in the "
        "original response.",
    )
