"""The live page's files, served from the package.

Rules:
- The files are read once, when the application is built; a request can name only one
  of them, never a path.
- A browser keeps them but asks each time whether they changed: an upgraded sidecar
  never runs an old page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import xxhash
from aiohttp import hdrs, web

CONTENT_TYPES: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    body: bytes
    content_type: str
    etag: str


PAGE = web.AppKey("page", dict[str, PageFile])


def add_page(app: web.Application) -> None:
    """Read the page's files and serve them at `/` and below `/page/`."""
    app[PAGE] = read_page()
    app.router.add_get("/", show_page)
    app.router.add_get("/page/{name}", show_file)


def read_page() -> dict[str, PageFile]:
    """Return the page's files by name."""
    page = {}
    for entry in (files("deuz_proxy") / "page").iterdir():
        content_type = CONTENT_TYPES.get(entry.name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            page[entry.name] = PageFile(
                body, content_type, xxhash.xxh3_128_hexdigest(body)
            )
    return page


async def show_page(request: web.Request) -> web.Response:
    """Answer with the page itself."""
    return send(request, "index.html")


async def show_file(request: web.Request) -> web.Response:
    """Answer with one of the page's files."""
    return send(request, request.match_info["name"])


def send(request: web.Request, name: str) -> web.Response:
    """Return a file, or word that the browser's copy is still right."""
    found = request.app[PAGE].get(name)
    if found is None:
        raise web.HTTPNotFound
    headers = {
        hdrs.CACHE_CONTROL: "no-cache",
        hdrs.CONTENT_TYPE: found.content_type,
        hdrs.ETAG: f'"{found.etag}"',
    }
    if any(tag.value == found.etag for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, headers=headers)
