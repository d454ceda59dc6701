"""Recognise that a conversation no longer fits, in all the ways servers say it.

Rules:
- Structured codes first, then words of quotas, then words of overflow
  (`overflow_rules`); a status alone says nothing.
- Only what the server itself says is searched (`error_report`), never model output.
- Numbers are taken where they stand (`token_numbers`), structured ones before words.
- Silence is measured: an answer that tells of far fewer tokens than were sent, or of
  a window filled to the brim, is a suspicion, not a certainty.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from deuz_compiler.wires.error_report import (
    ErrorReport,
    decode_value,
    is_error,
    read_report,
    stop_reason,
)
from deuz_compiler.wires.error_words import Rule
from deuz_compiler.wires.look_alike_rules import QUOTA_CODES
from deuz_compiler.wires.metering import ReplyFacts
from deuz_compiler.wires.overflow_rules import (
    OVERFLOW_CODES,
    TEXT_RULES,
    TWO_NUMBERS,
)
from deuz_compiler.wires.token_numbers import TokenNumbers, read_numbers
from deuz_compiler.wires.usage import Usage

SILENT_RATIO = 2
"""An estimate may be off by a third; half of it missing is not an estimate's fault."""
SILENT_MIN_TOKENS = 2048
"""Smaller differences are templates, images counted otherwise, and rounding."""
BRIM_TOKENS = 64
"""Servers that cut a prompt to fit leave no more than this of the window free."""
BLANK_PERCENT = 80
"""A refusal without a word is taken for overflow only this near to the window."""

_CURES = {
    "input": "history",
    "input_chars": "history",
    "request_bytes": "bytes",
    "input_plus_output": "either",
}
_OTHER_STATUSES = (401, 402, 403, 404, 405, 407)
_QUOTA_STATUS = 429
_TOO_LARGE_STATUS = 413
_FIRST_ERROR_STATUS = 400
_BLANK_STATUSES = (400, 413)

_FINISHED_OVER = re.compile(r"context[ _]?(?:window|length|limit)")
_FINISHED_BY_LENGTH = ("length", "max_tokens", "max_output_tokens")

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class OverflowSignal(msgspec.Struct, frozen=True, gc=False):
    """An overflow that was recognised.

    `kind` is `input`, `input_plus_output`, `input_chars` or `request_bytes`; `cure` is
    `history`, `either`, `max_tokens` or `bytes`: what must shrink. `form` is `error`,
    `finish` or `silent`. `excess_tokens` is known where a server tells only the
    difference. `rule` names the line of `overflow_rules` that decided.
    """

    kind: str
    cure: str
    rule: str
    form: str = "error"
    limit_tokens: int | None = None
    requested_tokens: int | None = None
    excess_tokens: int | None = None
    limit_bytes: int | None = None
    limit_chars: int | None = None


def recognise_overflow(
    status: int,
    body: bytes,
    *,
    headers: Mapping[str, str] = _NO_HEADERS,
    is_stream_event: bool = False,
) -> OverflowSignal | None:
    """Return the overflow that an error answer tells of, or None.

    With a good status the body is looked at only where it is shaped like an error;
    `is_stream_event` says that it is the data of an event and not a whole answer.
    """
    if status in _OTHER_STATUSES:
        return None
    if status < _FIRST_ERROR_STATUS:
        value = decode_value(body)
        if not is_error(value, is_stream_event=is_stream_event):
            return _signal_of_finish(stop_reason(value))
    report = read_report(body, headers)
    if any(map(OVERFLOW_CODES.pattern.search, report.codes)):
        return _signal_of_code(report)
    if any(map(QUOTA_CODES.pattern.search, report.codes)):
        return None
    return _signal_of_texts(report, status)


def recognise_blank(
    status: int, *, window_tokens: int | None, estimated_tokens: int | None
) -> OverflowSignal | None:
    """Return an overflow for a refusal without a body, where the size explains it."""
    if status not in _BLANK_STATUSES or not window_tokens or not estimated_tokens:
        return None
    if estimated_tokens * 100 < window_tokens * BLANK_PERCENT:
        return None
    return OverflowSignal(kind="input", cure="history", rule="blank_refusal")


def recognise_finish(facts: ReplyFacts) -> OverflowSignal | None:
    """Return an overflow where the answer stopped because the window was full."""
    reason = facts.finish_reason
    # Each answer comes by here: most end by a word without it.
    if reason is None or "context" not in reason.lower():
        return None
    return _signal_of_finish(reason)


def recognise_silent(
    usage: Usage | None,
    finish_reason: str | None,
    has_content: bool,  # noqa: FBT001  # The three facts of an answer, in their order.
    *,
    window_tokens: int | None,
    estimated_tokens: int | None,
) -> OverflowSignal | None:
    """Return a suspected overflow of an answer that looks like a success, or None.

    Needs a known window or an estimate of what was sent; without both it is silent.
    """
    total = None if usage is None else usage.input_total
    if usage is None or total is None or usage.is_anomalous:
        return None
    if window_tokens and total > window_tokens:
        return _silent("usage_over_window", window_tokens, requested_tokens=total)
    # Numbers first: hardly any answer fills its window.
    free_tokens = (window_tokens or 0) - total - (usage.output or 0)
    if window_tokens and -BRIM_TOKENS <= free_tokens <= BRIM_TOKENS:
        reason = (finish_reason or "").lower()
        if reason in _FINISHED_BY_LENGTH or not has_content:
            return _silent("window_filled", window_tokens)
    missing = (estimated_tokens or 0) - total
    if missing >= SILENT_MIN_TOKENS and total * SILENT_RATIO < total + missing:
        return _silent("usage_below_estimate", window_tokens)
    return None


def plain_text(text: str) -> str:
    """Return the text as the rules see it.

    Lower case, on one line, without quotes, links and thousands separators.
    """
    text = _unescape(text.lower().replace("\\n", " "))
    text = _QUOTES.sub("", _LINK.sub(" ", _ECHO.sub(" ", text)))
    text = _SEPARATOR.sub("", _RANGE.sub(r"[\1, \2]", text))
    return _SPACE.sub(" ", text).strip()


def _unescape(text: str) -> str:
    """Undo what JSON and Python do to letters: texts inside texts keep it."""
    text = _ESCAPED_LETTER.sub(lambda match: chr(int(match[1], 16)), text)
    return _ESCAPED_BYTES.sub(
        lambda match: bytes.fromhex(_NOT_HEX.sub("", match[0])).decode(
            errors="replace"
        ),
        text,
    )


_ESCAPED_LETTER = re.compile(r"\\{1,8}u([0-9a-f]{4})")
_ESCAPED_BYTES = re.compile(r"(?:\\{1,8}x[0-9a-f]{2}){1,400}")
_NOT_HEX = re.compile(r"[^0-9a-f]")
_LINK = re.compile(r"https?://[^\s)\]}>]{1,400}")
# Validators quote the offending value: that is the request speaking, not the server.
_ECHO = re.compile(
    r"(?:\binput_value|\bvalue|\bgot|\breceived)[:=]? ?(?:'[^']*'|\"[^\"]*\")"
)
# The b of a Python bytes repr goes with its quote: it would grow into the next word.
_QUOTES = re.compile(r"\bb(?=[\"'])|[\"'`\u00b4\u2018\u2019\u201c\u201d*\\]")
_SPACE = re.compile(r"\s+")
_RANGE = re.compile(r"\[(\d+),(\d+)\]")
_SEPARATOR = re.compile(
    r"(?<=\d)[,_\u00a0\u202f\u2009](?=\d{3}(?:[,_\u00a0\u202f\u2009]\d{3})*(?!\d))"
)

_BYTES = re.compile(r"(?:vs\.? |limit\D{1,9}|equal to |)(\d{4,15})\b(?! vs)")
_CHARS = re.compile(r"(?:maxlength: |length: \d+\.\.)(\d{1,15})")


def _signal_of_finish(reason: object) -> OverflowSignal | None:
    if not isinstance(reason, str) or not _FINISHED_OVER.search(reason.lower()):
        return None
    return OverflowSignal(
        kind="input_plus_output", cure="either", rule="finish_reason", form="finish"
    )


def _signal_of_code(report: ErrorReport) -> OverflowSignal:
    for text in map(plain_text, report.texts):
        rule = first_rule(text)
        if rule is not None and rule.kind is not None:
            return _signal(msgspec.structs.replace(rule, name="code"), text, report)
    # A code is enough; the words, if any, are of a kind not seen before.
    text = plain_text(report.texts[0]) if report.texts else ""
    return _signal(OVERFLOW_CODES, text, report)


def _signal_of_texts(report: ErrorReport, status: int) -> OverflowSignal | None:
    found: OverflowSignal | None = None
    for text in map(plain_text, report.texts):
        rule = first_rule(text) or _rule_of_numbers(text)
        if rule is None or (rule.is_vague and status == _QUOTA_STATUS):
            continue
        if rule.kind is None or _is_output_alone(text):
            return None
        found = found or _signal(rule, text, report)
    return found


def first_rule(text: str) -> Rule | None:
    """Return the rule that decides a plain text."""
    return next((rule for rule in TEXT_RULES if rule.pattern.search(text)), None)


def _rule_of_numbers(text: str) -> Rule | None:
    """Words of no known kind, around a count of tokens that is over a limit."""
    if not TWO_NUMBERS.pattern.search(text):
        return None
    numbers = read_numbers(text)
    if numbers.limit is None or numbers.requested is None:
        return None
    return TWO_NUMBERS if numbers.requested > numbers.limit else None


def _is_output_alone(text: str) -> bool:
    """Whether the asked-for output fills the window, whatever the input is."""
    numbers = read_numbers(text)
    if numbers.limit is None or numbers.output is None or numbers.input is not None:
        return False
    return numbers.requested is None and numbers.output >= numbers.limit


def _signal(rule: Rule, text: str, report: ErrorReport) -> OverflowSignal:
    if rule.kind == "request_bytes":
        size = _BYTES.search(text)
        return OverflowSignal(
            kind="request_bytes",
            cure="bytes",
            rule=rule.name,
            limit_bytes=int(size[1]) if size else None,
        )
    if rule.kind == "input_chars":
        size = _CHARS.search(text)
        return OverflowSignal(
            kind="input_chars",
            cure="history",
            rule=rule.name,
            limit_chars=int(size[1]) if size else None,
        )
    numbers = (
        TokenNumbers() if rule.name == "no_room_for_output" else read_numbers(text)
    )
    kind = _refined_kind(rule.kind or "input", text, numbers)
    return OverflowSignal(
        kind=kind,
        cure=_cure(kind, numbers),
        rule=rule.name,
        limit_tokens=report.limit_tokens or numbers.limit,
        requested_tokens=report.requested_tokens or numbers.requested,
        excess_tokens=numbers.excess,
    )


_EITHER_PART = re.compile(
    r"messages or completion|length of either|or (?:the )?(?:completion|number of"
    r" requested output|max_tokens)|your request exceeded model token limit"
    r"|input and (?:maximum )?output|^\W*context size has been exceeded"
)


def _refined_kind(kind: str, text: str, numbers: TokenNumbers) -> str:
    """Tell input alone from input and output: the parts told beat the advice given."""
    if numbers.output is not None:
        return "input_plus_output" if numbers.output else "input"
    if numbers.input is not None and numbers.input == numbers.requested:
        return "input"
    return "input_plus_output" if _EITHER_PART.search(text) else kind


def _cure(kind: str, numbers: TokenNumbers) -> str:
    if kind != "input_plus_output" or not numbers.output or not numbers.limit:
        return _CURES[kind]
    # No history is so short that it fits into what such an output leaves.
    left_tokens = numbers.limit - numbers.output
    return "max_tokens" if left_tokens < BRIM_TOKENS else _CURES[kind]


def _silent(
    rule: str, window_tokens: int | None, *, requested_tokens: int | None = None
) -> OverflowSignal:
    return OverflowSignal(
        kind="input",
        cure="history",
        rule=rule,
        form="silent",
        limit_tokens=window_tokens,
        requested_tokens=requested_tokens,
    )
