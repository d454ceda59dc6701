"""What the live page and the admin API can tell: recent requests and conversations.

Rules:
- Everything is bounded. What left a ring is gone, and a reader that was too slow for
  the ring is told how many it lost.
- An event is kept as it is and described when somebody reads it: most never are.
- Sums are made of many requests at once: when somebody reads them, or so many wait.
- Readers share the ring; each has a place in it and a flag, no queue of its own.
- One owner, the event loop: events and readers come from the same thread.
"""

import asyncio
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from deuz_proxy.observe.events import Event, LedgerUsed, RequestFinished, RequestStarted
from deuz_proxy.sinks.describe import Described, describe_in_full, describe_request
from deuz_proxy.sinks.tally import Tally, Total, tally_of

NOTICES_AT_ONCE = 50
"""A late reader catches up in steps of under 1 ms, so that it delays no request."""

_MOST_FRESH = 36
"""Seldom full at the same request as those of the other sinks."""

PLACE_DIGITS = re.compile(r"[0-9]{1,18}")
"""Without a bound on the digits, the header of a hostile reader would not convert."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message to a reader; `id` is where to resume behind it, if it has a place."""

    id: str | None
    name: str
    content: Described


class Feed:
    """A listener that remembers the newest requests and conversations.

    `generation` tells this process from its predecessors, so that a reader's place in
    an older ring is not mistaken for one in this.
    """

    def __init__(
        self,
        *,
        generation: str,
        requests_kept: int = 500,
        conversations_kept: int = 200,
        readers_kept: int = 32,
    ) -> None:
        self._generation = generation
        self._ring: deque[RequestFinished] = deque(maxlen=requests_kept)
        # Not summed up yet.
        self._fresh: list[RequestFinished] = []
        # Of one that has a single request only this is kept: many never have another.
        self._conversations: OrderedDict[str, Tally | RequestFinished] = OrderedDict()
        self._conversations_kept = conversations_kept
        self._readers_kept = readers_kept
        self._readers: dict[int, Reader] = {}
        self._total = Total()
        self.list_workers: Callable[[], Sequence[Described]] = tuple
        """What each of several workers does; set by whoever has them."""

    def __call__(self, event: Event) -> None:
        """Take note of an event; never waits, and costs the same with any history."""
        if type(event) is RequestFinished:
            self._ring.append(event)
            self._fresh.append(event)
            if len(self._fresh) >= _MOST_FRESH:
                self._settle()
        elif type(event) is RequestStarted:
            self._total.in_flight += 1
        elif type(event) is LedgerUsed:
            self._total.use_ledger(event)
            # Several per request: they are told with the next of the others.
            return
        else:
            self._total.add(event)
        if self._readers:
            for reader in self._readers.values():
                reader.wake()

    def _settle(self) -> Total:
        """Sum up what is fresh; return the sums of all."""
        if self._fresh:
            fresh, self._fresh = self._fresh, []
            self._total.finish_all(fresh)
            for event in fresh:
                if event.conversation is not None:
                    self._keep(event.conversation, event)
        return self._total

    def _keep(self, conversation: str, event: RequestFinished) -> None:
        conversations = self._conversations
        known = conversations.get(conversation)
        if known is None:
            if len(conversations) >= self._conversations_kept:
                conversations.popitem(last=False)
            conversations[conversation] = event
            return
        conversations.move_to_end(conversation)
        if isinstance(known, RequestFinished):
            known = conversations[conversation] = tally_of(known)
        known.add(event)

    @property
    def last_event_id(self) -> str:
        """The place behind the newest request, for a reader to resume from."""
        return self.place(self._settle().requests)

    def place(self, number: int) -> str:
        """Name the place behind the request with this number, counted from 1."""
        return f"{self._generation}.{number}"

    def requests(self, limit: int) -> Iterator[Described]:
        """Describe the newest requests, newest first, each when it is asked for.

        The choice is made at once: events that come while the caller is still reading
        change nothing. Manifest lines are left to `request`.
        """
        chosen = tuple(islice(reversed(self._ring), limit))
        return (describe_request(event) for event in chosen)

    def request(self, request_id: str) -> Described | None:
        """Describe one request in full; None if it is not, or no more, remembered."""
        # Somebody who looks waits longer for the page than for this.
        for event in reversed(self._ring):
            if event.request_id == request_id:
                return describe_in_full(event)
        return None

    def conversations(self) -> Iterator[Described]:
        """Describe the conversations, the one used last first."""
        self._settle()
        chosen = tuple(reversed(self._conversations.values()))
        return (_tally(known).describe() for known in chosen)

    def status(self) -> Described:
        """Describe what is counted over all requests since the start."""
        return self._settle().describe(self.list_workers())

    def subscribe(self, after: str | None = None) -> "Reader | None":
        """Open a reader behind a place, or at the newest request; None: too many.

        A place of another generation makes the reader say `reset` and begin with the
        oldest remembered request.
        """
        if len(self._readers) >= self._readers_kept:
            return None
        number = self._number(after)
        reader = Reader(self, 0 if number is None else number, is_reset=number is None)
        self._readers[id(reader)] = reader
        return reader

    def _number(self, place: str | None) -> int | None:
        if place is None:
            return self._settle().requests
        generation, _, digits = place.rpartition(".")
        if generation != self._generation or not PLACE_DIGITS.fullmatch(digits):
            return None
        return min(int(digits), self._settle().requests)

    def behind(self, number: int, limit: int) -> tuple[int, list[RequestFinished]]:
        """Return how many requests behind a number are lost, and the next ones kept."""
        oldest = self._settle().requests - len(self._ring)
        lost = max(0, oldest - number)
        start = number + lost - oldest
        return lost, list(islice(self._ring, start, start + limit))

    def conversation(self, conversation: str | None) -> Described | None:
        """Describe one conversation as it is now; None if it is not remembered."""
        self._settle()
        known = self._conversations.get(conversation) if conversation else None
        return None if known is None else _tally(known).describe()

    def drop(self, reader: "Reader") -> None:
        """Forget a reader; a second time changes nothing."""
        self._readers.pop(id(reader), None)


def _tally(known: Tally | RequestFinished) -> Tally:
    return tally_of(known) if isinstance(known, RequestFinished) else known


class Reader:
    """One reader's place in the ring.

    `wait` may be cancelled at any time without loss: the place moves in `take` alone.
    """

    def __init__(self, feed: Feed, number: int, *, is_reset: bool) -> None:
        self._feed = feed
        self._number = number
        self._is_reset = is_reset
        self._news = asyncio.Event()
        # The first thing a reader gets is the status, so that there is one at all.
        self._news.set()
        self.is_closed = False

    def wake(self) -> None:
        """Say that there is news."""
        self._news.set()

    async def wait(self) -> None:
        """Return when `take` has something to give, or the reader was closed."""
        await self._news.wait()

    def take(self) -> Sequence[Notice]:
        """Return what came since the last time, a bounded number, then the status."""
        lost, events = self._feed.behind(self._number, NOTICES_AT_ONCE)
        notices = list(self._signals(lost))
        self._number += lost
        for event in events:
            self._number += 1
            notices.append(self._tell(event))
        if len(events) < NOTICES_AT_ONCE:
            self._news.clear()
            notices.append(Notice(None, "status", self._feed.status()))
        return notices

    def _signals(self, lost: int) -> Iterator[Notice]:
        if self._is_reset:
            self._is_reset = False
            yield Notice(None, "reset", {})
        if lost:
            yield Notice(None, "lost", {"count": lost})

    def _tell(self, event: RequestFinished) -> Notice:
        content: Described = {
            "request": describe_request(event),
            "conversation": self._feed.conversation(event.conversation),
        }
        return Notice(self._feed.place(self._number), "request", content)

    def close(self) -> None:
        """End the reader; whoever waits for it returns at once."""
        self.is_closed = True
        self._feed.drop(self)
        self._news.set()
