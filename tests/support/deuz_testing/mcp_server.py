"""A server of the Model Context Protocol, made with its SDK: `stdio`, or `http PORT`.

Rules:
- It keeps nothing between questions, but for its process id, which tells a restart.
- Tools misbehave by name, each in its own way.
"""

import os
import sys
import time
from typing import Any

from mcp.server import MCPServer
from mcp.types import TextContent

server = MCPServer("sample")

RECORDS = [
    {"id": 1, "text": "rivers run to the sea", "score": 0.9, "url": "wiki/rivers"},
    {"id": "b", "text": "rivers freeze", "score": 0.4},
]
NOTES = {
    "notes://rivers": "# Rivers\n\nThey run to the sea.\n\n# Lakes\n\nThey stay.",
    "notes://hats": "All about hats.",
}


@server.tool()
def search(query: str, limit: int = 5, scope: str = "") -> dict[str, Any]:
    """Find records; what is asked and who answers is told in the first one."""
    told = {"id": "told", "text": f"{os.getpid()} {query} {limit} {scope} x"}
    return {"results": [told, *RECORDS][: max(1, limit)]}


@server.tool()
def texts(query: str) -> list[TextContent]:
    """Answer with plain texts."""
    return [
        TextContent(type="text", text=f"about {query}"),
        TextContent(type="text", text="and more"),
    ]


@server.tool()
def boom(query: str) -> str:
    """Fail, quoting the question."""
    raise ValueError(f"no luck with {query}")


@server.tool()
def die(query: str) -> str:
    """End the process in the middle of a question."""
    os._exit(3)


@server.tool()
def huge(query: str) -> str:
    """Answer with more than anybody wants."""
    return "x" * 5_000_000


@server.tool()
async def slow(query: str) -> str:
    """Take longer than anybody waits."""
    import anyio

    await anyio.sleep(60)
    return query


@server.tool()
def block(query: str) -> str:
    """Answer nobody for a while, not even a request to end."""
    time.sleep(60)
    return query


@server.tool()
def number(query: str) -> int:
    """Answer with something that is no list."""
    return 7


@server.tool()
def noise(query: str) -> str:
    """Write to where only the operator looks, and to where only messages belong."""
    print(f"canary on stderr: {query}", file=sys.stderr, flush=True)
    return f"noted {query}"


@server.resource("notes://rivers", mime_type="text/markdown")
def rivers() -> str:
    """Rivers and lakes."""
    return NOTES["notes://rivers"]


@server.resource("notes://hats")
def hats() -> str:
    """Hats."""
    return NOTES["notes://hats"]


@server.resource("notes://picture", mime_type="image/png")
def picture() -> bytes:
    """A picture."""
    return b"\x89PNG"


@server.resource("notes://broken")
def broken() -> str:
    """One that cannot be read."""
    raise ValueError("broken")


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
