"""Models of the two kinds of prompt cache that providers run.

Rules:
- An entry is a hash of everything before it, so a hit needs an identical prefix.
- Looking up changes nothing; `commit` is called when the answer begins, because an
  entry is readable only from then on. Lifetimes count from the request's start.
- A scope (credential, model, routing key, parameters) is part of every hash.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from deuz_proxy.demo.provider.tokens import BYTES_PER_TOKEN, Block

LOOK_BACK_BLOCKS = 20
SHORT_TTL_SECONDS = 300
LONG_TTL_SECONDS = 3_600
IDLE_SECONDS = 600  # Automatic caches live five to ten minutes without use.
MAX_ENTRIES = 500_000


@dataclass(frozen=True, slots=True)
class CacheUse:
    """What a request reads from the cache and writes to it, in tokens."""

    read: int
    write_short: int
    write_long: int
    commit: Callable[[], None]


class BreakpointCache:
    """Writes where the client says, finds earlier writes within a look-back window."""

    def __init__(self, *, minimum_tokens: int) -> None:
        self._minimum_tokens = minimum_tokens
        self._expiry: dict[bytes, float] = {}
        self._ttl: dict[bytes, int] = {}

    def look_up(self, scope: bytes, blocks: tuple[Block, ...], now: float) -> CacheUse:
        """Return what these blocks read and write at this time."""
        chain = _chain(scope, blocks)
        totals = _totals(blocks)
        marks = [
            place
            for place, block in enumerate(blocks, 1)
            if block.ttl_seconds and totals[place] >= self._minimum_tokens
        ]
        # A read may stand on a short prefix's mark, but no entry is that short.
        hit = max((self._reach(chain, mark, now) for mark in marks), default=0)
        long_end = max(
            (m for m in marks if blocks[m - 1].ttl_seconds == LONG_TTL_SECONDS),
            default=0,
        )
        split = max(hit, long_end)
        end = max([split, *marks])

        def commit() -> None:
            for place in sorted({hit, *marks} - {0}):
                self._write(chain[place], blocks[place - 1].ttl_seconds, now)

        return CacheUse(
            read=totals[hit],
            write_long=totals[split] - totals[hit],
            write_short=totals[end] - totals[split],
            commit=commit,
        )

    def _reach(self, chain: list[bytes], mark: int, now: float) -> int:
        for place in range(mark, max(mark - LOOK_BACK_BLOCKS, 0), -1):
            if self._expiry.get(chain[place], 0.0) > now:
                return place
        return 0

    def _write(self, key: bytes, ttl_seconds: int | None, now: float) -> None:
        if len(self._expiry) >= MAX_ENTRIES:
            self._expiry.clear()
            self._ttl.clear()
        # A read refreshes an entry with the lifetime it was written with.
        ttl = max(ttl_seconds or 0, self._ttl.get(key, 0))
        self._ttl[key] = ttl
        self._expiry[key] = max(self._expiry.get(key, 0.0), now + ttl)


class PrefixCache:
    """Caches every prompt by itself, in steps of a fixed number of tokens."""

    def __init__(self, *, minimum_tokens: int, step_tokens: int) -> None:
        self._minimum_tokens = minimum_tokens
        self._step_tokens = step_tokens
        self._expiry: dict[bytes, float] = {}

    def look_up(self, scope: bytes, blocks: tuple[Block, ...], now: float) -> CacheUse:
        """Return what these blocks read; automatic writes cost nothing."""
        prompt = b"".join(block.text for block in blocks)
        keys = self._keys(scope, prompt)
        known = 0
        while known < len(keys) and self._expiry.get(keys[known], 0.0) > now:
            known += 1
        # The last token is always computed: something has to be predicted from it.
        total = len(prompt) // BYTES_PER_TOKEN
        read = min(known, max(total - 1, 0) // self._step_tokens) * self._step_tokens

        def commit() -> None:
            if total < self._minimum_tokens:
                return
            if len(self._expiry) >= MAX_ENTRIES:
                self._expiry.clear()
            for key in keys:
                self._expiry[key] = now + IDLE_SECONDS

        if read < self._minimum_tokens:
            read = 0
        return CacheUse(read=read, write_short=0, write_long=0, commit=commit)

    def _keys(self, scope: bytes, prompt: bytes) -> list[bytes]:
        step_bytes = self._step_tokens * BYTES_PER_TOKEN
        running = hashlib.blake2b(scope, digest_size=16)
        keys = []
        for start in range(0, len(prompt) - step_bytes + 1, step_bytes):
            running.update(prompt[start : start + step_bytes])
            keys.append(running.digest())
        return keys


def _chain(scope: bytes, blocks: tuple[Block, ...]) -> list[bytes]:
    running = hashlib.blake2b(scope, digest_size=16)
    chain = [running.digest()]
    for block in blocks:
        # The length in front keeps two blocks from looking like one.
        running.update(b"%d:%d:" % (len(block.salt), len(block.text)))
        running.update(block.salt + block.text)
        chain.append(running.digest())
    return chain


def _totals(blocks: tuple[Block, ...]) -> list[int]:
    totals = [0]
    for block in blocks:
        totals.append(totals[-1] + block.tokens)
    return totals
