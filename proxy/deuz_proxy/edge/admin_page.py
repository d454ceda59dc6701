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

from deuz_proxy.edge.admin_web import Application, Key, NotFound, Request, Response

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


PAGE = Key[dict[str, PageFile]]()


def add_page(app: Application) -> None:
    """Read the page's files and serve them at `/` and below `/page/`."""
    app[PAGE] = read_page()
    app.add("GET", "/", show_page)
    app.add("GET", "/page/{name}", show_file)


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


async def show_page(request: Request) -> Response:
    """Answer with the page itself."""
    return send(request, "index.html")


async def show_file(request: Request) -> Response:
    """Answer with one of the page's files."""
    return send(request, request.named["name"])


def send(request: Request, name: str) -> Response:
    """Return a file, or word that the browser's copy is still right."""
    found = request.app[PAGE].get(name)
    if found is None:
        raise NotFound
    headers = {
        "Cache-Control": "no-cache",
        "Content-Type": found.content_type,
        "ETag": f'"{found.etag}"',
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status=304, headers=headers)
    return Response(body=found.body, headers=headers)
