"""What was said before, in other conversations of the same scope.

Rules:
- Only accepted requests of known tenants are remembered, on routes that compile.
- An exchange is remembered when it is complete: a question of the user, and the answer
  that the next request brings back. Only what was said: no tool calls, no results, no
  reasoning, no system prompt, nothing that the sidecar wrote.
- What the request itself holds is not offered: it is there already.
- Ids come from the conversation's lineage: the same exchange is kept once, whoever
  sends it again, and can be forgotten by it.
- Remembering never waits: what comes too fast is dropped and counted.
"""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from deuz_compiler import Candidate, Envelope, said_text
from deuz_proxy.calls import Call
from deuz_proxy.config.inside import TranscriptSource
from deuz_proxy.memory.records import MEMORY_SCOPE, Draft, Hit, Notes, Record, Records
from deuz_proxy.ports import Query

_ID_DIGITS = 24
_ID = re.compile(r"[0-9a-f]{24}")
_MOST_WAITING = 64
_MOST_KNOWN = 10_000
# Of a long conversation that is new to this process, the newest exchanges.
_MOST_AT_ONCE = 20
_MOST_QUESTION, _MOST_ANSWER = 1_500, 2_500
_CLOSE_SECONDS = 2.0


class Past(Records, Notes, Protocol):
    """Where exchanges are kept: as memory is, with a bound."""

    async def trim(self, scope: str, *, most_in_scope: int, most: int) -> int:
        """Remove the oldest records over the bounds; return how many."""

    async def close(self) -> None:
        """Close the store."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer; `key` is the lineage up to the question."""

    key: bytes
    question: str
    answer: str

    @property
    def id(self) -> str:
        """The exchange's name within its scope."""
        return exchange_id(self.key)

    @property
    def text(self) -> str:
        """What is kept and offered."""
        question = _shortened(self.question, _MOST_QUESTION)
        return f"User: {question}\n\nAssistant: {_shortened(self.answer, _MOST_ANSWER)}"


class Transcript:
    """A `ports.Source` and `ports.Archive`. `clock` is Unix time."""

    def __init__(
        self,
        config: TranscriptSource,
        past: Past,
        *,
        clock: Callable[[], float],
    ) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self._past = past
        self.missed = 0
        self._config = config
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._waiting: asyncio.Queue[Call | None] = asyncio.Queue(_MOST_WAITING)
        self._tasks = asyncio.TaskGroup()
        self._is_open = False

    async def open(self) -> None:
        """Open inside the running loop."""
        await self._tasks.__aenter__()
        self._tasks.create_task(self._remember())
        self._is_open = True

    def note(self, call: Call) -> None:
        """Remember what an accepted request says, when there is time."""
        if not self._is_open or call.is_probe:
            return
        try:
            self._waiting.put_nowait(call)
        except asyncio.QueueFull:
            self.missed += 1

    async def settled(self) -> None:
        """Return once all that was noted so far is kept."""
        await self._waiting.join()

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return the exchanges of other conversations that fit the question.

        Raises:
            StoreFailed: the store did not answer.
        """
        here = frozenset(exchange_id(key) for key in query.history)
        hits = await self._past.search(
            query.scope,
            query.text,
            limit=query.limit + len(here),
            now=self._clock(),
        )
        fitting = [
            hit
            for hit in hits
            if hit.record.id not in here and hit.score >= float(self._config.min_score)
        ]
        return [self._candidate(query.scope, hit) for hit in fitting[: query.limit]]

    async def page(
        self, scope: str, *, after: str, limit: int, now: float
    ) -> Sequence[Record]:
        """Return exchanges by id, those behind `after` first."""
        return await self._past.page(scope, after=after, limit=limit, now=now)

    async def drop(self, scope: str, ids: Sequence[str], *, now: float) -> int:
        """Remove exchanges; they stay forgotten, though their conversation goes on."""
        for record_id in filter(_ID.fullmatch, ids):
            await self._past.swap(scope, _mark(record_id), old=None, new=b"1")
        return await self._past.drop(scope, ids, now=now)

    async def dropped(
        self, scope: str, ids: Sequence[str], *, since: float
    ) -> Sequence[str]:
        """Return which of the ids were dropped at that time or later."""
        return await self._past.dropped(scope, ids, since=since)

    async def close(self) -> None:
        """Write what waits, within two seconds, and close. May be called twice."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._waiting.put(None)
                await self._tasks.__aexit__(None, None, None)
        except TimeoutError:
            self.missed += self._waiting.qsize()
        await self._past.close()

    async def _remember(self) -> None:
        while (call := await self._waiting.get()) is not None:
            try:
                await self._keep(call)
            except Exception:  # noqa: BLE001  # It would end whoever opened this.
                self.missed += 1
            finally:
                self._waiting.task_done()

    async def _keep(self, call: Call) -> None:
        if call.envelope is None:
            return
        scope, now = call.identity.scope, self._clock()
        day = time.strftime("%Y-%m-%d", time.gmtime(call.at))
        is_new = False
        for exchange in _newest(call.envelope, call.chain, self._is_known, scope):
            draft = Draft(
                exchange.id,
                exchange.text,
                expires_at=now + self._config.ttl_seconds,
                origin=f"conversation of {day}",
                source_kinds=("conversation",),
            )
            await self._put(scope, draft, now)
            is_new = True
            self._know(scope, exchange.id)
        if is_new:
            await self._past.trim(
                scope,
                most_in_scope=self._config.max_records_per_scope,
                most=self._config.max_records,
            )

    async def _put(self, scope: str, draft: Draft, now: float) -> None:
        if await self._past.load(scope, _mark(draft.id)) is not None:
            return
        await self._past.put(scope, draft, now=now)
        # Put first, then look: whichever of the two is late sees the other.
        if await self._past.load(scope, _mark(draft.id)) is not None:
            await self._past.drop(scope, [draft.id], now=now)

    def _is_known(self, scope: str, key: bytes) -> bool:
        return (scope, exchange_id(key)) in self._known

    def _know(self, scope: str, record_id: str) -> None:
        self._known[scope, record_id] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _candidate(self, scope: str, hit: Hit) -> Candidate:
        draft = hit.record.draft
        return Candidate(
            source=self.id,
            kind=self.kind,
            record_id=draft.id,
            text=draft.text,
            revision=str(hit.record.revision),
            digest=hit.record.digest,
            score=hit.score,
            expires_at=draft.expires_at,
            origin=draft.origin,
            source_kinds=draft.source_kinds,
            provenance=((MEMORY_SCOPE, scope),),
        )


def _mark(record_id: str) -> str:
    """Return the key under which it is noted that an exchange was forgotten."""
    return f"forgotten {record_id}"


def exchange_id(key: bytes) -> str:
    """Return the id of the exchange whose question ends this lineage."""
    return key.hex()[:_ID_DIGITS]


def exchanges_of(
    envelope: Envelope, chain: Sequence[bytes], start: int = 0
) -> Iterator[Exchange]:
    """Return the complete exchanges from a turn on, oldest first.

    Raises:
        NotLifted: a turn is not what it seemed to be.
    """
    question, key = "", b""
    answer: list[str] = []
    for index in range(start, len(envelope.turns)):
        turn = envelope.turns[index]
        if turn.role not in ("user", "assistant"):
            continue
        said = said_text(envelope.wire, envelope.body[turn.start : turn.end])
        if turn.role == "assistant":
            answer.extend([said] if said.strip() else [])
        elif turn.is_fresh:
            if question and answer:
                yield Exchange(key, question, "\n\n".join(answer))
            question, key, answer = said.strip(), chain[index], []


def _newest(
    envelope: Envelope,
    chain: Sequence[bytes],
    is_known: Callable[[str, bytes], bool],
    scope: str,
) -> Sequence[Exchange]:
    """Return the complete exchanges that are not known yet, the newest few."""
    start, fresh = len(envelope.turns), 0
    for index in range(len(envelope.turns) - 1, envelope.lead - 1, -1):
        turn = envelope.turns[index]
        if turn.role != "user" or not turn.is_fresh:
            continue
        if is_known(scope, chain[index]) or fresh > _MOST_AT_ONCE:
            break
        start, fresh = index, fresh + 1
    return list(exchanges_of(envelope, chain, start))


def _shortened(text: str, most: int) -> str:
    plain = text.replace("\0", "")
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
