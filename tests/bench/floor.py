"""The floor: the plainest aiohttp pass-through that is still right, to compare with.

Rules:
- It forwards method, path, query, headers and bytes, streams both ways, and does
  nothing else: what the sidecar costs above it is what the sidecar's work costs.

Usage: python -m tests.bench.floor LISTEN_PORT UPSTREAM_PORT
"""

import asyncio
import sys

import aiohttp
import uvloop
from aiohttp import web

HOP_BY_HOP = frozenset(
    {
        "connection",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


async def serve(listen_port: int, upstream_port: int) -> None:
    """Forward everything to the upstream until the process ends."""
    upstream = f"http://127.0.0.1:{upstream_port}"
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=OWN_HEADERS,
    )

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name.lower() not in HOP_BY_HOP
        ]
        async with session.request(
            request.method,
            upstream + request.raw_path,
            headers=headers,
            data=request.content,
            allow_redirects=False,
        ) as reply:
            response = web.StreamResponse(status=reply.status, reason=reply.reason)
            for name, value in reply.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", listen_port, backlog=1024).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
