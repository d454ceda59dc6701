"""Server-sent events as the providers write them, and text cut into deltas."""

from deuz_proxy.demo.provider.exchange import Json
from deuz_proxy.demo.provider.fields import compact

DELTA_CHARACTERS = 16


def data_event(payload: Json) -> bytes:
    """Return an event without a name."""
    return f"data: {compact(payload)}\n\n".encode("utf-8", "surrogatepass")


def named_event(payload: Json) -> bytes:
    """Return an event named like its payload's type."""
    head = f"event: {payload['type']}\n".encode()
    return head + data_event(payload)


def deltas(text: str) -> list[str]:
    """Return the text in pieces; an empty text has none."""
    return [
        text[start : start + DELTA_CHARACTERS]
        for start in range(0, len(text), DELTA_CHARACTERS)
    ]
