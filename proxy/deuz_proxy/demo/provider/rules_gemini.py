"""What Gemini's generateContent refuses, in its own words.

Rules:
- A turn with calls stands behind a user or result turn, and is followed by a turn with
  as many results.
- Gemini 3 and later want the signature of the first call of each step in the current
  turn, which starts at the last user turn that is not a result.
- Camel and snake case are both accepted.
"""

import itertools
from typing import Any

from deuz_proxy.demo.provider.exchange import Json, ProviderRequest, Refusal
from deuz_proxy.demo.provider.fields import first_refusal, mapping, objects, word
from deuz_proxy.demo.provider.signing import Signer

# Documented stand-ins for histories that come from elsewhere.
STAND_INS = {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
_ROLES = ("user", "model", "function", "")
# The newest models want their signatures back, and so does the one that acts like them.
_SIGNING = ("gemini-3", "fake")


def check_gemini(
    request: ProviderRequest, signer: Signer, *, alternate: bool = False
) -> Refusal | None:
    """Return the refusal of the first broken rule, or None."""
    contents = request.payload.get("contents")
    contents = [contents] if isinstance(contents, dict) and contents else contents
    refusal = first_refusal((_check_contents,), contents) or _check_tools(
        request.payload
    )
    if refusal is not None:
        return refusal
    turns = objects(contents)
    refusal = first_refusal((_check_roles, _check_calls), turns)
    if refusal is None:
        refusal = _check_signatures(turns, signer, request.model)
    if refusal is None and alternate:
        refusal = _check_alternation(turns)
    return refusal


def member(value: Json, camel: str) -> Any:
    """Return a member by its camel or snake name."""
    if camel in value:
        return value[camel]
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in camel)
    return value.get(snake)


def parts_with(turn: Json, camel: str) -> list[Json]:
    """Return the parts of a turn that hold such a member."""
    return [part for part in parts_of(turn) if member(part, camel) is not None]


def turns_of(payload: Json) -> list[Json]:
    """Return the turns; one without a list around it is a list of one."""
    contents = payload.get("contents")
    return [contents] if isinstance(contents, dict) else objects(contents)


def parts_of(turn: Json) -> list[Json]:
    """Return the parts; one without a list around it is a list of one."""
    parts = turn.get("parts")
    return [parts] if isinstance(parts, dict) else objects(parts)


def role_of(turn: Json) -> str:
    """Return `user`, `model` or `result`."""
    if parts_with(turn, "functionResponse"):
        return "result"
    return "model" if turn.get("role") == "model" else "user"


def _check_contents(contents: Any) -> Refusal | None:
    if not contents:
        return Refusal(
            "empty_messages",
            "* GenerateContentRequest.contents: contents is not specified\n",
        )
    if not isinstance(contents, list):
        return Refusal("parameter_type", "Invalid value at 'contents'")
    for place, turn in enumerate(contents):
        parts = turn.get("parts") if isinstance(turn, dict) else None
        parts = [parts] if isinstance(parts, dict) else parts
        where = f"GenerateContentRequest.contents[{place}].parts"
        if not isinstance(parts, list) or not parts:
            return Refusal(
                "empty_content", f"* {where}: contents.parts must not be empty.\n"
            )
        for number, part in enumerate(parts):
            if not isinstance(part, dict) or not set(part) - {"thought"}:
                return Refusal(
                    "empty_content",
                    f"* {where}[{number}].data: required oneof field 'data' must have "
                    "one initialized field\n",
                )
    return None


def _check_tools(payload: Json) -> Refusal | None:
    seen: set[str] = set()
    for tool in objects(payload.get("tools")):
        for declaration in objects(member(tool, "functionDeclarations")):
            name = word(declaration.get("name"))
            if name in seen:
                return Refusal(
                    "duplicate_tool", f"Duplicate function declaration found: {name}"
                )
            seen.add(name)
    return None


def _check_roles(turns: list[Json]) -> Refusal | None:
    for turn in turns:
        if (turn.get("role") or "") not in _ROLES:
            return Refusal("unknown_role", "Please use a valid role: user, model.")
    if role_of(turns[0]) == "model" and not parts_with(turns[0], "functionCall"):
        return Refusal(
            "first_role",
            "Please ensure that multiturn requests begin with a user role.",
        )
    return None


def _check_calls(turns: list[Json]) -> Refusal | None:
    for place, turn in enumerate(turns):
        calls = len(parts_with(turn, "functionCall"))
        results = len(parts_with(turn, "functionResponse"))
        before = role_of(turns[place - 1]) if place else ""
        if calls and before not in {"user", "result"}:
            return Refusal(
                "call_place",
                "Please ensure that function call turn comes immediately after a user "
                "turn or after a function response turn.",
            )
        if results and before != "model":
            return _unequal()
        following = turns[place + 1] if place + 1 < len(turns) else {}
        if calls and len(parts_with(following, "functionResponse")) != calls:
            return _unequal()
        if results and len(parts_with(turns[place - 1], "functionCall")) != results:
            return _unequal()
    return None


def _unequal() -> Refusal:
    return Refusal(
        "calls_without_results",
        "Please ensure that the number of function response parts is equal to the "
        "number of function call parts of the function call turn.",
    )


def _check_signatures(turns: list[Json], signer: Signer, model: str) -> Refusal | None:
    start = max(
        (place for place, turn in enumerate(turns) if role_of(turn) == "user"),
        default=0,
    )
    for place, turn in enumerate(turns):
        for part in parts_of(turn):
            signature = member(part, "thoughtSignature")
            if signature is not None and not _is_known(word(signature), signer):
                return Refusal("thinking_signature", "Corrupted thought signature.")
        calls = parts_with(turn, "functionCall")
        is_checked = model.startswith(_SIGNING) and place > start and calls
        if is_checked and member(calls[0], "thoughtSignature") is None:
            name = word(mapping(member(calls[0], "functionCall")).get("name"))
            return Refusal(
                "thinking_signature",
                "Function call is missing a thought_signature in functionCall parts. "
                "This is required for tools to work correctly, and missing "
                "thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {place}.",
            )
    return None


def _is_known(signature: str, signer: Signer) -> bool:
    return signature in STAND_INS or signer.unwrap(signature) is not None


def _check_alternation(turns: list[Json]) -> Refusal | None:
    sides = [role_of(turn) == "model" for turn in turns]
    for before, after in itertools.pairwise(sides):
        if before == after:
            return Refusal(
                "alternation",
                "Please ensure that multiturn requests alternate between user and "
                "model.",
            )
    return None
