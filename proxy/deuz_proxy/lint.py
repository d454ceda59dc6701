"""Offline prefix report over captured request bodies, one JSON body a line.

Rules:
- The same lineage, tracker and verdicts as in the running sidecar, without time.
- A line that is not understood is told by number and reason, and skipped.
- Nothing of the content is printed: places, causes and counts only.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from deuz_compiler import (
    Baseline,
    Envelope,
    NotLifted,
    Prefix,
    Verdict,
    chain,
    judge,
    lift,
    plain_prefix,
    scope_root,
    seed_of,
)
from deuz_proxy.stores.tracker import Tracker

_ROOT = scope_root(b"lint", scope="lint")
_CHAT_MARKS = (b'"role":"system"', b'"role":"developer"', b'"role":"tool"')


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one line of the file turned out to be."""

    line: int
    wire: str | None = None
    conversation: int | None = None
    verdict: str | None = None
    segment: str | None = None
    cause: str | None = None
    owner: str | None = None
    index: int | None = None
    offset: int | None = None
    lost_tokens: int = 0
    total_tokens: int = 0
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The sums over a file."""

    requests: int
    skipped: int
    conversations: int
    breaks: int
    lost_tokens: int


def lint_file(path: Path, tell: Callable[[str], None], *, is_json: bool) -> Summary:
    """Tell the report, line by line, and return its sums.

    Raises:
        OSError: the file cannot be read.
    """
    findings = []
    with path.open("rb") as file:
        for finding in lint_bodies(file):
            findings.append(finding)
            if is_json:
                tell(msgspec.json.encode(finding).decode())
            elif _is_worth_telling(finding):
                tell(describe(finding))
    summary = summarize(findings)
    if not is_json:
        tell(
            f"{_count(summary.requests, 'request')} in "
            f"{_count(summary.conversations, 'conversation')}, "
            f"{summary.skipped} skipped: {_count(summary.breaks, 'prefix break')}, "
            f"{_count(summary.lost_tokens, 'token')} to be read again (estimated)"
        )
    return summary


def lint_bodies(lines: Iterable[bytes]) -> Iterator[Finding]:
    """Yield what each body did to the prefix of its conversation, in order."""
    names = (str(number) for number in itertools.count(1))
    tracker = Tracker(new_id=lambda: next(names))
    shown: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        body = line.strip()
        if not body:
            continue
        wire = guess_wire(body)
        try:
            envelope = lift(wire, body, seed=seed_of(_ROOT))
        except NotLifted as fault:
            yield Finding(number, skipped=fault.reason)
            continue
        yield _judge(number, envelope, tracker, shown)


def guess_wire(body: bytes) -> str:
    """Return the wire a captured body most likely belongs to."""
    wire = _by_history(body)
    if wire is not None:
        return wire
    plain = body.replace(b'": "', b'":"')
    is_chat = any(mark in plain for mark in _CHAT_MARKS) or b'"function"' in plain
    return "openai_chat" if is_chat and b'"system":' not in plain else "anthropic"


class _Histories(msgspec.Struct):
    messages: msgspec.Raw = msgspec.Raw()
    input: msgspec.Raw = msgspec.Raw()
    contents: msgspec.Raw = msgspec.Raw()


_histories = msgspec.json.Decoder(_Histories)


def _by_history(body: bytes) -> str | None:
    """Return the wire that alone names its history so; None for `messages`."""
    try:
        found = _histories.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if bytes(found.messages):
        return None
    if bytes(found.input):
        return "openai_responses"
    return "gemini" if bytes(found.contents) else None


def summarize(findings: Iterable[Finding]) -> Summary:
    """Return the sums over the findings."""
    told = list(findings)
    breaks = [f for f in told if f.verdict == "broken"]
    return Summary(
        requests=sum(f.skipped is None for f in told),
        skipped=sum(f.skipped is not None for f in told),
        conversations=len({f.conversation for f in told if f.conversation}),
        breaks=len(breaks),
        lost_tokens=sum(f.lost_tokens for f in breaks),
    )


def describe(finding: Finding) -> str:
    """Return one finding as a line to read."""
    if finding.skipped:
        return f"line {finding.line}: not understood ({finding.skipped})"
    place = f" {finding.index}" if finding.index is not None else ""
    # Byte 0 is the body's brace: of what is gone there is no place.
    offset = f", byte {finding.offset}" if finding.offset else ""
    return (
        f"line {finding.line}: conversation {finding.conversation} "
        f"{finding.verdict} at {finding.segment}{place}{offset}: {finding.cause}, "
        f"owner {finding.owner}, {finding.lost_tokens} of {finding.total_tokens} tokens"
    )


def _count(number: int, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _is_worth_telling(finding: Finding) -> bool:
    return finding.skipped is not None or finding.verdict == "broken"


def _judge(
    number: int, envelope: Envelope, tracker: Tracker, shown: dict[str, int]
) -> Finding:
    keys = chain(envelope, root=_ROOT)[envelope.lead :]
    prefix = plain_prefix(envelope)
    sighting = tracker.sight(keys, prefix, session=None, is_probe=False)
    current = Baseline(prefix, prefix, float(number), 0.0)
    verdict = judge(
        sighting.baselines, current, body=envelope.body, kept=tracker.kept_text
    )
    tracker.record(
        sighting, keys, current, session=None, texts=_texts(envelope, prefix)
    )
    conversation = shown.setdefault(sighting.conversation, len(shown) + 1)
    return _finding(number, envelope, prefix, verdict, conversation)


def _texts(envelope: Envelope, prefix: Prefix) -> tuple[tuple[bytes, bytes], ...]:
    segments = (prefix.tools, prefix.system)
    return tuple(
        (s.digest, envelope.body[s.start : s.end]) for s in segments if s.digest
    )


def _finding(
    number: int, envelope: Envelope, prefix: Prefix, verdict: Verdict, conversation: int
) -> Finding:
    return Finding(
        line=number,
        wire=envelope.wire,
        conversation=conversation,
        verdict=verdict.verdict,
        segment=verdict.segment,
        cause=verdict.cause,
        owner=verdict.owner,
        index=verdict.index,
        offset=verdict.offset,
        lost_tokens=verdict.lost_tokens,
        total_tokens=prefix.total_tokens,
    )
