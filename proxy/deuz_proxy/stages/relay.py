"""Relay: the answer's bytes to the client as they arrive, the meter beside them.

Rules:
- A chunk goes out before the meter sees its copy: the observer never delays.
- A broken answer looks broken: the client's connection is ended, never tidied up.
- A client that leaves ends the upstream's answer too.
- One that was handed the final event has its answer: many leave at once then, before
  the connection says so. Whether it was is asked only of a client that has left.
- After a switch of the protocol, bytes go both ways, unread, until either side ends it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from deuz_proxy.calls import Sent, Totals
from deuz_proxy.errors import UpstreamBroken
from deuz_proxy.observe.watch import Watch
from deuz_proxy.ports import Client

_SWITCHED = 101
_FIRST_BAD = 400
# What an error's text is kept for: to recognise an overflow that was only observed.
_MOST_ERROR_BYTES = 65_536


class Relay:
    """One answer on its way. What it counted stays readable if the way is cut."""

    def __init__(self, sent: Sent, client: Client, watch: Watch) -> None:
        self._sent = sent
        self._client = client
        self._watch = watch
        self._bytes = 0
        self._first_byte: float | None = None
        self._error_text: list[bytes] = []
        self._error_bytes = 0
        # What was held was metered first: until it is out, the meter is ahead.
        self._is_level = False
        self._is_through = False
        # Whether what comes may go out at once: nothing that came before is under way.
        self._is_free = True
        self._is_bad = sent.reply.status >= _FIRST_BAD
        # Most answers are metered as they come.
        is_plain = not self._is_bad and not sent.reply.codings
        self._meter = sent.meter.feed if is_plain else self._meter_decoded

    async def run(self) -> Totals:
        """Hand the whole answer through and return how it ended."""
        reply = self._sent.reply
        try:
            if reply.status == _SWITCHED:
                return await self._tunnel()
            body = self._body_here()
            if body is None:
                await self._in_pieces()
            else:
                if self._write_whole(body):
                    await self._client.drain()
                # What was held has been metered already.
                if not self._sent.is_whole:
                    self._meter(body)
            self._is_through = True
            self._client.finish()
        except UpstreamBroken as fault:
            self._client.abort()
            return self.totals("truncated", error=fault.code)
        except OSError:
            return self.left()
        finally:
            reply.close()
        return self.totals(self._whole)

    def left(self) -> Totals:
        """Return how it ended for a client that has left, with its answer or not."""
        has_answer = self._is_through or (
            self._is_level and self._sent.meter.close().is_complete
        )
        return self.totals(self._whole if has_answer else "client_closed")

    def totals(self, outcome: str, *, error: str | None = None) -> Totals:
        """Return what was relayed so far."""
        return Totals(
            outcome=outcome,
            status=self._sent.reply.status,
            response_bytes=self._bytes,
            first_byte_seconds=self._first_byte,
            error=error,
            error_body=b"".join(self._error_text),
        )

    @property
    def _whole(self) -> str:
        return "upstream_error" if self._is_bad else "ok"

    def _body_here(self) -> bytes | None:
        """Return the whole body, if it was held or is here."""
        held = self._sent.held
        if self._sent.is_whole:
            return held[0]
        return None if held else self._sent.reply.body_here()

    def _rest(self) -> AsyncIterator[bytes]:
        """Return what yields the bytes that were not read: made late, seldom needed."""
        rest = self._sent.rest
        return self._sent.reply.chunks() if rest is None else rest

    def _write_whole(self, body: bytes) -> bool:
        """Hand on the answer and all of its body; tell whether it waits."""
        reply = self._sent.reply
        self._first_byte, self._bytes = self._watch.elapsed(), len(body)
        is_slow = self._client.start_with(
            reply.status, reply.reason, reply.headers, body
        )
        self._is_level = True
        return is_slow

    async def _in_pieces(self) -> None:
        """Hand a body through as it comes."""
        reply = self._sent.reply
        self._client.start(reply.status, reply.reason, reply.headers)
        # What was held has been metered already.
        for chunk in self._sent.held:
            if self._write(chunk):
                await self._client.drain()
        self._is_level = True
        reply.offer(self._take)
        async for chunk in self._rest():
            # It came before all that is offered now.
            self._is_free = True
            self._take(chunk)
            if not self._is_free:
                await self._client.drain()
                self._is_free = True

    async def _tunnel(self) -> Totals:
        """Hand bytes through in both directions; what came before the end arrives."""
        reply = self._sent.reply
        said = await self._client.switch(reply.reason, reply.headers)
        async with asyncio.TaskGroup() as group:
            ways = [group.create_task(way) for way in (self._up(said), self._down())]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        self._client.finish()
        return self.totals("ok")

    async def _up(self, said: AsyncIterator[bytes]) -> None:
        with contextlib.suppress(OSError):
            async for piece in said:
                await self._sent.reply.send(piece)

    async def _down(self) -> None:
        # Either side may simply hang up: that is how a socket ends.
        with contextlib.suppress(OSError, UpstreamBroken):
            async for piece in self._rest():
                if self._write(piece):
                    await self._client.drain()

    def _take(self, chunk: bytes) -> bool:
        """Hand on a chunk within the call that read it, unless it has to wait."""
        if not self._is_free:
            return False
        if self._write(chunk):
            self._is_free = False
        self._meter(chunk)
        return True

    def _write(self, chunk: bytes) -> bool:
        """Hand on a chunk; tell whether the client is to be waited for."""
        if self._first_byte is None:
            self._first_byte = self._watch.elapsed()
        self._bytes += len(chunk)
        return self._client.write(chunk)

    def _meter_decoded(self, chunk: bytes) -> None:
        plain = self._sent.decode(chunk)
        self._sent.meter.feed(plain)
        if self._is_bad and self._error_bytes < _MOST_ERROR_BYTES:
            self._error_text.append(plain)
            self._error_bytes += len(plain)
