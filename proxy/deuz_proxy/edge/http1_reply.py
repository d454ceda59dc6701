"""An answer of an upstream, on its way over the connection that it came by.

Rules:
- One task reads it, once; read or not, it is closed.
- Only what has come whole gives its connection back for another request.
"""

from collections.abc import AsyncIterator, Callable

import msgspec

from deuz_proxy.edge.http1_answers import Exchange
from deuz_proxy.edge.http1_client import Connection
from deuz_proxy.edge.http1_wire import AnswerHead, Lines


class Http1Reply(msgspec.Struct, eq=False):
    """An answer whose head has arrived. One task reads it, once."""

    _connection: Connection | None
    _exchange: Exchange
    _keep: Callable[[Connection], None]
    status: int
    reason: str
    headers: Lines
    kind: bytes
    codings: tuple[bytes, ...]

    def body_here(self) -> bytes | None:
        """Return the whole body, if all of it has come and none was taken."""
        body = self._exchange.inbox.take_whole()
        if body is not None:
            self.close()
        return body

    def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body's bytes as they arrive.

        Raises:
            UpstreamBroken: the body ended before its announced end.
        """
        return self._exchange.inbox.pieces(self.close)

    def offer(self, take: Callable[[bytes], bool]) -> None:
        """Offer pieces as they come; `chunks` yields those that it says no to.

        What it raises is raised there.
        """
        self._exchange.inbox.take = take

    async def send(self, piece: bytes) -> None:
        """Send bytes the other way, once the connection was switched.

        Raises:
            ConnectionResetError: the connection ended.
        """
        if self._connection is not None:
            await self._connection.send(piece)

    def close(self) -> None:
        """Give the connection back if the answer has come whole, else end it."""
        connection = self._connection
        if connection is None:
            return
        self._connection = None
        if connection.end():
            self._keep(connection)


def reply_of(
    connection: Connection,
    exchange: Exchange,
    answer: AnswerHead,
    keep: Callable[[Connection], None],
) -> Http1Reply:
    """Return the answer that begins with this head; `keep` gets its connection back."""
    return Http1Reply(
        connection,
        exchange,
        keep,
        answer.status,
        answer.reason.decode("latin-1"),
        answer.lines,
        answer.kind,
        answer.codings,
    )
