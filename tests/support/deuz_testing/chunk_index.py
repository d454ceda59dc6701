"""An index of a folder's chunks, filled and searched in a line."""

from deuz_proxy.sources.chunks import Chunk
from deuz_proxy.sources.index import ChunkIndex, Stamp
from deuz_proxy.sources.scores import Hit

STAMP = Stamp(1, 2, b"digest")


def put(index: ChunkIndex, texts: dict[str, str]) -> None:
    """Put files of one chunk in, by name."""
    for name, text in texts.items():
        index.replace(name, STAMP, [Chunk("1", text)])


def search(index: ChunkIndex, text: str, limit: int = 9) -> list[Hit]:
    """Return all hits, however poor."""
    return list(index.search(text, limit=limit, min_score=0))


def names(index: ChunkIndex, text: str, limit: int = 9) -> list[str]:
    """Return the names of all hits."""
    return [hit.name for hit in search(index, text, limit)]
