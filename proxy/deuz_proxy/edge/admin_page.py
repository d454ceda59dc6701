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

from deuz_proxy.edge.admin_web import UNKNOWN_PATH, Application, Request, Response

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


def add_page(app: Application) -> None:
    """Read the page's files and serve them at `/` and below `/page/`."""
    page = read_page()

    async def show_page(request: Request) -> Response:
        return send(request, page["index.html"])

    async def show_file(request: Request) -> Response:
        found = page.get(request.named["name"])
        return UNKNOWN_PATH if found is None else send(request, found)

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


def send(request: Request, file: PageFile) -> Response:
    """Return a file, or word that the browser's copy is still right."""
    tag = f'"{file.etag}"'
    headers = {"Cache-Control": "no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(b"", 304, file.content_type, headers)
    return Response(file.body, 200, file.content_type, headers)
