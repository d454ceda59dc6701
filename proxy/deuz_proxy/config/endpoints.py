"""What a path asks for: the shape of its body, and the model where the path names it.

Rules:
- Ends of paths decide, whatever stands before: gateways and clouds add prefixes. Only
  whole endings count: `/v1/messages/count_tokens` or `/v1/responses/ID/cancel` are
  other calls.
- A path's model is percent-decoded, without the folders in front of it.
- The one extra question of a recovery goes to the same place, but for a whole answer:
  where the path asks for a stream, it is asked otherwise.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import quote, unquote

Api = Literal[
    "anthropic",
    "openai_chat",
    "openai_responses",
    "gemini",
    "ollama_chat",
    "ollama_generate",
    "bedrock_converse",
    "bedrock_invoke",
    "",
]
Family = Literal["anthropic", "openai", "gemini", "ollama", "bedrock", "none"]

# Their bodies are signed as a rule, by the byte: nobody may touch them.
UNTOUCHED: frozenset[Api] = frozenset({"bedrock_converse", "bedrock_invoke"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What a path tells. `model` is empty where the body names it, or nobody does.

    `is_compaction` says that the provider is to condense a history, at the client's
    wish: it costs tokens, which are counted, but is no turn to be judged or added to.
    """

    api: Api = ""
    model: str = ""
    is_streamed: bool = False
    is_compaction: bool = False


_COLON = r"(?::|%3[Aa])"
_MODEL = r"/(?P<model>[^/:]+?)"
# The first that fits wins.
_ENDPOINTS: tuple[tuple[re.Pattern[str], Api], ...] = (
    (re.compile(r".*/v1/messages"), "anthropic"),
    (re.compile(rf".*/deployments{_MODEL}/chat/completions"), "openai_chat"),
    (re.compile(r".*/chat/completions"), "openai_chat"),
    (re.compile(r".*/responses(?P<compact>/compact)?"), "openai_responses"),
    (
        re.compile(
            rf".*/(?:models|tunedModels|endpoints){_MODEL}{_COLON}"
            r"(?:generateContent|(?P<stream>streamGenerateContent))"
        ),
        "gemini",
    ),
    # Claude on Vertex AI; `count-tokens` is no model.
    (
        re.compile(
            rf".*/publishers/anthropic/models(?!/count-tokens){_MODEL}{_COLON}"
            r"(?:rawPredict|(?P<stream>streamRawPredict))"
        ),
        "anthropic",
    ),
    (re.compile(r".*/api/chat"), "ollama_chat"),
    (re.compile(r".*/api/generate"), "ollama_generate"),
    (
        re.compile(r".*/model/(?P<model>[^/]+)/converse(?P<stream>-stream)?"),
        "bedrock_converse",
    ),
    (
        re.compile(
            r".*/model/(?P<model>[^/]+)/invoke(?P<stream>-with-response-stream)?"
        ),
        "bedrock_invoke",
    ),
)
_FAMILIES: tuple[tuple[re.Pattern[str], Family], ...] = (
    (re.compile(r".*/v1/messages(?:/.*)?|.*/publishers/anthropic/.*"), "anthropic"),
    (re.compile(r".*/chat/completions|.*/responses(?:/.*)?"), "openai"),
    (re.compile(r".*/openai/(?:deployments|v1)/.*"), "openai"),
    (
        re.compile(rf".*/models/[^/]+{_COLON}[a-z]+(?:Content|Contents|Tokens)"),
        "gemini",
    ),
    (re.compile(r"/v1(?:beta|alpha)(?:/.*)?"), "gemini"),
    (re.compile(r"/api(?:/.*)?"), "ollama"),
    (re.compile(r"/model/[^/]+/(?:converse|invoke|count-tokens)[a-z-]*"), "bedrock"),
    (re.compile(r"/v1(?:/.*)?"), "openai"),
)
_STREAMS = re.compile(rf"({_COLON})stream(GenerateContent|RawPredict)$")
_PATH_MODEL = re.compile(
    rf"(/(?:deployments|models|tunedModels|endpoints)/)[^/:]+?(?=/|{_COLON})"
)


# Clients repeat the same few paths; those with ids in them must not grow this.
@lru_cache(maxsize=1024)
def endpoint_at(path: str) -> Endpoint:
    """Return what the path, without its query, asks for."""
    for pattern, api in _ENDPOINTS:
        found = pattern.fullmatch(path)
        if found:
            told = found.groupdict()
            model = unquote(told.get("model") or "").rpartition("/")[2]
            return Endpoint(
                api, model, bool(told.get("stream")), bool(told.get("compact"))
            )
    return Endpoint()


@lru_cache(maxsize=1024)
def family_at(path: str) -> Family:
    """Return whose path it is, by its looks."""
    for pattern, family in _FAMILIES:
        if pattern.fullmatch(path):
            return family
    return "none"


def path_of_one_answer(target: str, model: str) -> str:
    """Return the path and query that ask this model for one whole answer.

    They are the client's own but for a model and a method that stand in the path.
    """
    path, mark, query = target.partition("?")
    endpoint = endpoint_at(path)
    if endpoint.model and model != endpoint.model:
        path = _PATH_MODEL.sub(lambda m: m[1] + quote(model, safe=""), path)
    if not endpoint.is_streamed:
        return path + mark + query
    kept = [part for part in query.split("&") if part and part != "alt=sse"]
    path = _STREAMS.sub(lambda m: m[1] + m[2][0].lower() + m[2][1:], path)
    return path + ("?" + "&".join(kept) if kept else "")
