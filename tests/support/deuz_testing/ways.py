"""One talk of a real client, recorded on each way to the provider.

Rules:
- A talk builds its client without arguments: only the base-URL variables lead it.
- The provider's clock stands still and its ids count up, so that the same talk gets the
  same answers on every way, byte for byte.
- A recording is made once and then only looked at.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deuz_compiler import NotLifted, lift
from deuz_compiler.wires.own import BLOCK_TAG
from deuz_proxy.demo.provider import FakeProvider, LoggedRequest, TokenCount
from deuz_proxy.running import base_urls
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar import ROUTES, Json, sidecar_config, sidecar_in_thread

DIRECT, OBSERVE, COMPILE, COMPILE_PART = "direct", "observe", "compile", "compile-part"
NOW = 1_800_000_000.0

# What belongs to one hop, by RFC 9110; the length is compared with the body instead.
_HOP = frozenset(
    {
        b"host",
        b"connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
    }
)
_BLOCK = rb'<%b (?:[^"\\]|\\.)*?</%b>' % (BLOCK_TAG.encode(), BLOCK_TAG.encode())
_OWN = rb'"(?:[^"\\]|\\.)*"'
# On two wires a string becomes a list around its own bytes, and so does an input of
# Responses that is one string; which it was, only the client's own body tells.
_ITEM = rb'\{"type":"message","role":"user","content":\[\{"type":"input_text","text":'
INSERTED = re.compile(
    b"|".join(
        (
            rb"\[%b(?P<asked>%b)\}\]\},%b\"(?P<beside>%b)\"\}\]\}\]"
            % (_ITEM, _OWN, _ITEM, _BLOCK),
            rb'\[%b(?P<asking>%b)\},\{"type":"input_text","text":"(?P<within>%b)"\}\]\}\]'
            % (_ITEM, _OWN, _BLOCK),
            rb'\[\{"type":"(?P<kind>\w+)","text":(?P<own>%b)\},'
            rb'\{"type":"\w+","text":"(?P<listed>%b)"\}\]' % (_OWN, _BLOCK),
            rb',\{"role":"user","content":"(?P<turn>%b)"\}' % _BLOCK,
            rb",%b\"(?P<item>%b)\"\}\]\}" % (_ITEM, _BLOCK),
            rb',\{"type":"(?:input_)?text","text":"(?P<part>%b)"\}' % _BLOCK,
            rb',\{"role":"user","parts":\[\{"text":"(?P<content>%b)"\}\]\}' % _BLOCK,
            rb',\{"text":"(?P<content_part>%b)"\}' % _BLOCK,
            rb"\\n\\n(?P<spliced>%b)" % _BLOCK,
        )
    )
)
_COUNTS = {"usage", "usage_metadata", "prompt_eval_count"}
_ALONE = ("asked", "asking")
_TEXTS = tuple(
    name for name in INSERTED.groupindex if name not in {*_ALONE, "own", "kind"}
)
# Nothing in it is the wire's own but what a body needs to be one.
_SMALLEST: Mapping[str, bytes] = {
    "anthropic": b'{"model":"m","messages":[{"role":"user","content":"?"}]}',
    "openai_chat": b'{"model":"m","messages":[{"role":"user","content":"?"}]}',
    "openai_responses": b'{"model":"m","input":[{"role":"user","content":"?"}]}',
    "gemini": b'{"contents":[{"role":"user","parts":[{"text":"?"}]}]}',
    "ollama_chat": b'{"model":"m","messages":[{"role":"user","content":"?"}]}',
    "ollama_generate": b'{"model":"m","prompt":"?"}',
}
NOTES = {
    "payments": "Payments are retried three times; a decline is final.",
    "releases": "Releases stop when half of the error budget is spent.",
    "database": "The database pool has twenty connections; a waiter gives up.",
}
RULE = "The team wants short answers."


@dataclass(frozen=True, slots=True)
class Talk:
    """What one client does; returns what it got, as JSON values.

    In a `conversation` every request continues the one before. `settings` are the
    provider's, `notes` are the documents of the sidecar's source, by title. `needs`
    names what has to be installed before it can run. `varying` matches what the client
    makes up anew each time, such as ids.
    """

    name: str
    wire: str
    run: Callable[[], list[Any]]
    is_conversation: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=lambda: NOTES)
    needs: str = ""
    varying: bytes = rb"(?!)"

    def settled(self, body: bytes) -> bytes:
        """Return the body with stand-ins, as long, for what the client makes up."""
        return re.sub(self.varying, lambda found: b"~" * len(found[0]), body)


@dataclass(frozen=True, slots=True)
class Recording:
    """What the client got, what the provider received, and what the sidecar told."""

    results: list[Any]
    requests: tuple[LoggedRequest, ...]
    told: tuple[Json, ...] = ()

    @property
    def refused(self) -> list[str]:
        """The rules of the provider that were broken, in order."""
        return [logged.rule for logged in self.requests if logged.rule]


class Recorder:
    """Records talks; each on each way once. Owned by one test session."""

    def __init__(self, make_folder: Callable[[str], Path]) -> None:
        self._make_folder = make_folder
        self._known: dict[tuple[str, str], Recording] = {}

    def __call__(self, talk: Talk, way: str) -> Recording:
        """Return what happens when the client talks on this way."""
        known = self._known.get((talk.name, way))
        if known is None:
            known = self._known[talk.name, way] = self._record(talk, way)
        return known

    def _record(self, talk: Talk, way: str) -> Recording:
        settings = {
            "minimum_cached_tokens": 16,
            "cache_step_tokens": 4,
            "alternate": way == COMPILE_PART,
        }
        provider = FakeProvider(clock=lambda: NOW, **{**settings, **talk.settings})
        with provider_in_thread(provider):
            if way == DIRECT:
                with client_environment(provider.url, is_direct=True):
                    return Recording(talk.run(), tuple(provider.requests))
            folder = self._make_folder(f"{talk.name}-{way}")
            config = way_config(folder, provider.url, way, talk.notes)
            with sidecar_in_thread(folder, config) as sidecar:
                with client_environment(sidecar.url):
                    results = talk.run()
                told = sidecar.told(len(self(talk, DIRECT).requests))
            return Recording(results, tuple(provider.requests), tuple(told))


def is_lifted(wire: str) -> bool:
    """Tell whether the sidecar understands the bodies of this API, or passes them."""
    try:
        lift(wire, _SMALLEST[wire])
    except NotLifted:
        return False
    return True


def way_config(folder: Path, provider: str, way: str, notes: Mapping[str, str]) -> Json:
    """Return the sidecar's config for a way; its documents are in the folder."""
    mode = OBSERVE if way == OBSERVE else COMPILE
    # Google's SDKs differ in the version they ask for.
    paths = (*ROUTES, "/v1/models/*", "/v1beta/models/*")
    return sidecar_config(
        provider,
        placement="part" if way == COMPILE_PART else "turn",
        sources=write_sources(folder, notes),
        routes=[{"path": path, "mode": mode} for path in paths],
    )


def direct_variables(provider: str) -> dict[str, str]:
    """Return the base-URL variables as they are without a sidecar."""
    return {
        name: value.replace("/@gemini", "")
        for name, value in base_urls(provider).items()
    }


KEYS = {
    "OPENAI_API_KEY": "sk-of-the-test",
    "ANTHROPIC_API_KEY": "sk-ant-of-the-test",
    "GEMINI_API_KEY": "key-of-the-test",
}


@contextmanager
def client_environment(url: str, *, is_direct: bool = False) -> Iterator[None]:
    """Point the clients at an address, by the variables that their users set."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY"):
            patch.delenv(name, raising=False)
        variables = direct_variables(url) if is_direct else base_urls(url)
        for name, value in {**KEYS, **variables}.items():
            patch.setenv(name, value)
        yield


def client_variables() -> dict[str, str]:
    """Return what a client in a process of its own sees: addresses, keys, programs."""
    names = (*KEYS, *base_urls(""), "PATH")
    return {name: os.environ[name] for name in names}


def write_sources(folder: Path, notes: Mapping[str, str]) -> tuple[Json, Json]:
    """Return a source of documents, written into the folder, and one of a rule."""
    documents = folder / "notes"
    documents.mkdir()
    for name, text in notes.items():
        (documents / f"{name}.md").write_text(f"# {name.title()}\n\n{text}\n")
    rule = {"id": "tone", "text": RULE, "mandatory": True}
    return (
        {"id": "notes", "kind": "rag", "type": "files", "path": str(documents)},
        {"id": "rules", "kind": "memory", "type": "static", "records": [rule]},
    )


def end_to_end_lines(logged: LoggedRequest) -> list[tuple[bytes, bytes]]:
    """Return the header lines that are not of one hop only, as received."""
    return [line for line in logged.headers if line[0].lower() not in _HOP]


def without_inserted(body: bytes, own: bytes) -> bytes:
    """Return the body without what only a sidecar writes.

    `own` is the client's body: it tells whether the client wrote a list, or the list
    is the sidecar's.
    """
    bare = b""
    position = 0
    for match in INSERTED.finditer(body):
        bare += body[position : match.start()]
        position = match.end()
        bare += match["asked"] or match["asking"] or b""
        if match["own"] is not None:
            listed = b'[{"type":"%b","text":%b}]' % (match["kind"], match["own"])
            is_list = own.startswith(b"[", len(bare))
            bare += listed if is_list else match["own"]
    return bare + body[position:]


def blocks_of(body: bytes) -> list[tuple[int, bytes]]:
    """Return the inserted blocks: at which message each stands, and its bytes.

    Counted are the messages of the client alone.
    """
    found = []
    for match in INSERTED.finditer(body):
        before = INSERTED.sub(b"", body[: match.start()])
        text = next(match[name] for name in _TEXTS if match[name] is not None)
        # The one message of an input that is a string is written by the sidecar.
        alone = any(match[name] is not None for name in _ALONE)
        found.append((before.count(b'"role":') + alone, text))
    return found


def without_usage(value: Any) -> Any:
    """Return the JSON value without token counts: those change with the context."""
    if isinstance(value, dict):
        return {k: without_usage(v) for k, v in value.items() if k not in _COUNTS}
    if isinstance(value, list):
        return [without_usage(entry) for entry in value]
    return value


def said_counts(wire: str, counted: TokenCount) -> tuple[int | None, int | None, int]:
    """Return what the provider's answer tells of its counts: not all tell zeros."""
    total, read = counted.input_total, counted.cache_read
    if wire == "gemini":
        return total, read or None, counted.output
    if wire.startswith("ollama"):
        return total, None, counted.output
    return total, read, counted.output
