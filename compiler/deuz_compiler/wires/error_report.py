"""Find the places of an error answer in which the server itself speaks.

Rules:
- Only members that hold errors are read, at any depth they are nested in practice;
  model output and echoed requests are not.
- JSON inside a string, behind a prefix or in a Python bytes repr is read as well.
- An HTML page is its text. What is no JSON at all is one text.
- Work is bounded: so many texts, so many characters of each, however large the body.
"""

import json
import re
from collections.abc import Iterator, Mapping

import msgspec

from deuz_compiler.wires.metering import UNREADABLE
from deuz_compiler.wires.sse import BYTE_ORDER_MARK, cut_events

MAX_TEXTS = 24
MAX_TEXT_CHARS = 8192
"""A server's own words come first; what follows so late is an echo or a trace."""
MAX_ALL_CHARS = 2 * MAX_TEXT_CHARS
MAX_CODE_CHARS = 100
MAX_DEPTH = 16
MAX_ITEMS = 8

TEXT_MEMBERS = (
    "message",
    "error",
    "detail",
    "details",
    "msg",
    "raw",
    "description",
    "error_description",
    "error_message",
    "errorMessage",
    "Message",
)
CODE_MEMBERS = (
    "code",
    "type",
    "status",
    "reason",
    "error_type",
    "errorType",
    "error_code",
    "errorCode",
    "__type",
    "class",
)
CONTAINERS = (
    "error",
    "errors",
    "detail",
    "details",
    "message",
    "metadata",
    "raw",
    "body",
    "cause",
    "innererror",
    "inner_error",
    "upstream_error",
    "last_error",
)
LIMIT_MEMBERS = ("n_ctx", "max_model_len", "max_context_length", "context_window")
REQUESTED_MEMBERS = ("n_prompt_tokens", "prompt_tokens", "requested_tokens")

ERROR_HEADERS = ("x-amzn-errortype", ":exception-type", ":error-code")

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD = re.compile(r"[^a-z0-9]+")
_TAG = re.compile(r"<[^<>]{0,400}>")
_JSON_START = re.compile(r"[{\[]\s*[\"{\[]")
_DECODER = json.JSONDecoder()


class ErrorReport(msgspec.Struct, frozen=True, gc=False):
    """What a server said: codes in snake case, texts as they came, and two counts."""

    codes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    limit_tokens: int | None = None
    requested_tokens: int | None = None


def read_report(body: bytes, headers: Mapping[str, str]) -> ErrorReport:
    """Return what the server says in the body and the headers of an error."""
    found = _Findings()
    for name, value in headers.items():
        if name.lower() in ERROR_HEADERS:
            found.add_code(value.partition(":")[0])
    body = body.removeprefix(BYTE_ORDER_MARK).strip()
    for spoken in _values(body):
        _walk(spoken, found, depth=0)
    return found.report()


def is_error(value: object, *, is_stream_event: bool) -> bool:
    """Whether a value from an answer with a good status tells of an error."""
    if isinstance(value, list):
        return bool(value) and is_error(value[0], is_stream_event=is_stream_event)
    if not isinstance(value, dict):
        return False
    if value.get("error") or value.get("type") in ("error", "response.failed"):
        return True
    if value.get("object") == "error" or value.get("errors"):
        return True
    return is_stream_event and isinstance(value.get("message"), str)


def stop_reason(value: object) -> object:
    """Return why an answer of any wire stopped, where it says so at a usual place."""
    if not isinstance(value, dict):
        return None
    places = [value, value.get("delta")]
    choices = value.get("choices")
    if isinstance(choices, list):
        places += choices[:1]
    for place in places:
        if isinstance(place, dict):
            for name in ("stop_reason", "stopReason", "finish_reason"):
                if place.get(name):
                    return place[name]
    return None


def decode_value(body: bytes) -> object:
    """Return the body's JSON value, None where it is none."""
    try:
        decoded: object = msgspec.json.decode(body.removeprefix(BYTE_ORDER_MARK))
    except UNREADABLE:
        return None
    return decoded


class _Findings:
    __slots__ = ("_codes", "_counts", "_room", "_texts")

    def __init__(self) -> None:
        self._room = MAX_ALL_CHARS
        self._codes: list[str] = []
        self._texts: list[str] = []
        self._counts: dict[str, int] = {}

    def add_code(self, value: object) -> None:
        code = str(value) if isinstance(value, (int, str)) else ""
        if 0 < len(code) <= MAX_CODE_CHARS and value is not True:
            snake = _WORD_START.sub("_", code).lower()
            self._codes.append(_NOT_WORD.sub("_", snake).strip("_"))

    def add_text(self, text: str) -> None:
        text = text[: min(MAX_TEXT_CHARS, self._room)]
        if text.strip() and not self.is_full:
            self._texts.append(text)
            self._room -= len(text)

    def add_count(self, name: str, value: object) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            self._counts.setdefault(name, value)

    @property
    def is_full(self) -> bool:
        return len(self._texts) >= MAX_TEXTS or self._room <= 0

    def report(self) -> ErrorReport:
        return ErrorReport(
            codes=tuple(self._codes),
            texts=tuple(self._texts),
            limit_tokens=self._first(LIMIT_MEMBERS),
            requested_tokens=self._first(REQUESTED_MEMBERS),
        )

    def _first(self, names: tuple[str, ...]) -> int | None:
        return next(
            (self._counts[name] for name in names if name in self._counts), None
        )


def _values(body: bytes) -> Iterator[object]:
    if body.startswith((b"data:", b"event:")):
        for event in cut_events(body)[:MAX_ITEMS]:
            yield decode_value(event.data)
        return
    value = decode_value(body)
    if value is not None:
        yield value
        return
    text = body[: 4 * MAX_TEXT_CHARS].decode("utf-8", errors="replace")
    yield _TAG.sub(" ", text) if text.startswith("<") else text


def _walk(value: object, found: _Findings, *, depth: int) -> None:
    if depth > MAX_DEPTH or found.is_full:
        return
    if isinstance(value, str):
        _walk_text(value, found, depth=depth)
    elif isinstance(value, list):
        for item in value[:MAX_ITEMS]:
            _walk(item, found, depth=depth + 1)
    elif isinstance(value, dict):
        _walk_object(value, found, depth=depth)


def _walk_object(value: dict[str, object], found: _Findings, *, depth: int) -> None:
    for name in CODE_MEMBERS:
        found.add_code(value.get(name))
    for name in (*LIMIT_MEMBERS, *REQUESTED_MEMBERS):
        found.add_count(name, value.get(name))
    response = value.get("response")
    if isinstance(response, dict):
        # A response repeats the request's instructions and metadata: not searched.
        _walk(response.get("error"), found, depth=depth + 1)
    for name in CONTAINERS:
        inner = value.get(name)
        if isinstance(inner, (dict, list)):
            _walk(inner, found, depth=depth + 1)
    for name in TEXT_MEMBERS:
        inner = value.get(name)
        if isinstance(inner, str):
            _walk_text(inner, found, depth=depth + 1)


def _walk_text(text: str, found: _Findings, *, depth: int) -> None:
    start = _JSON_START.search(text, 0, MAX_TEXT_CHARS)
    if start is None or depth > MAX_DEPTH:
        found.add_text(text)
        return
    try:
        inner, end = _DECODER.raw_decode(text, start.start())
    except UNREADABLE:
        # Damaged or escaped once more, as in a bytes repr: the words are still there.
        found.add_text(text)
        return
    found.add_text(text[: start.start()])
    _walk(inner, found, depth=depth + 1)
    found.add_text(text[end:])
