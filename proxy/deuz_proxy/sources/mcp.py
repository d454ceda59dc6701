"""A search tool of a server of the Model Context Protocol, as a source.

Rules:
- One session serves all requests; a question that meets a dead one is asked once more,
  in a new one.
- The scope goes out only where an argument is named for it: without, all tenants of the
  config share what the server answers.
- A tool is asked and its answer taken as data; the server can ask nothing of us.
"""

import json
from collections.abc import Callable, Sequence

from mcp import Client, MCPError
from mcp.client import Transport
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, CallToolResult

from deuz_compiler import Candidate
from deuz_proxy.config.outside import McpSource
from deuz_proxy.errors import SourceFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.answer import take_records
from deuz_proxy.sources.mcp_results import records_of
from deuz_proxy.sources.mcp_session import Connect, Session
from deuz_proxy.sources.mcp_wires import http_wire, stdio_wire

# The server understood and said no: the session is as good as before.
_REFUSALS = (INVALID_PARAMS, METHOD_NOT_FOUND)


class McpTool:
    """A `ports.Source` over a search tool."""

    def __init__(self, config: McpSource) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self.refused = 0
        self._config = config
        self._fixed = {n: _json_or_text(v) for n, v in config.arguments.items()}
        self._session = Session(config.id, connection(config))

    async def open(self) -> None:
        """Open inside the running loop."""
        await self._session.open()

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return what the tool answers, in its own order.

        Raises:
            SourceFailed: the server cannot be started, died, or answered with an error.
        """
        result = await self._call(query)
        if result.is_error:
            raise SourceFailed(source=self.id, reason="tool")
        config = self._config
        try:
            records = records_of(result, member=config.records, fields=config.fields)
        except ValueError as fault:
            raise SourceFailed(source=self.id, reason="wrong_shape") from fault
        taken = take_records(records, source=self.id, kind=self.kind, query=query)
        self.refused += taken.refused
        return taken.candidates

    async def close(self) -> None:
        """End the session and its server. May be called twice."""
        await self._session.close()

    async def _call(self, query: Query) -> CallToolResult:
        client = await self._session.client()
        try:
            return await self._ask(client, query)
        except SourceFailed as fault:
            if fault.reason != "broken":
                raise
        # It died since the last question, or just now: one new one is tried.
        return await self._ask(await self._session.client(), query)

    async def _ask(self, client: Client, query: Query) -> CallToolResult:
        try:
            return await client.call_tool(self._config.tool or "", self._said(query))
        except MCPError as fault:
            if fault.code in _REFUSALS:
                raise SourceFailed(source=self.id, reason="protocol") from fault
            self._session.lose(client)
            raise SourceFailed(source=self.id, reason="broken") from fault
        except Exception as fault:
            self._session.lose(client)
            raise SourceFailed(source=self.id, reason="broken") from fault

    def _said(self, query: Query) -> dict[str, object]:
        config = self._config
        said: dict[str, object] = {
            **self._fixed,
            config.query_argument: query.text,
        }
        if config.limit_argument:
            said[config.limit_argument] = query.limit
        if config.scope_argument:
            said[config.scope_argument] = query.scope
        return said


def _json_or_text(value: str) -> object:
    """Return the value that a text of the config stands for: `5`, `true`, `a`."""
    try:
        found: object = json.loads(value)
    except ValueError:
        return value
    return found


def connection(config: McpSource) -> Connect:
    """Return what connects to the configured server."""

    def connect(ended: Callable[[], None]) -> Transport:
        if config.command:
            return stdio_wire(
                config.command,
                {k: v.get_secret_value() for k, v in config.env.items()},
                most_bytes=config.max_answer_bytes,
                ended=ended,
            )
        return http_wire(
            config.url or "",
            {k: v.get_secret_value() for k, v in config.headers.items()},
            ca_file=config.ca_file,
            most_bytes=config.max_answer_bytes,
        )

    return connect
