"""How text that the sidecar adds is written on a wire.

Rules:
- A text is the content of a JSON string, escaped already.
- No cache marker is ever written.
"""

from collections.abc import Callable

import msgspec

from deuz_compiler.wires.envelope import Envelope

Frame = tuple[bytes, bytes]
"""What stands before and behind a JSON string."""


class Writing(msgspec.Struct, frozen=True, gc=False):
    """What is peculiar about writing on one wire.

    `turn` makes a string a user turn of its own, `part` a further part of one, whose
    parts are in its member `content`. With `wraps_strings` a content that is a string
    becomes a list around its own bytes; without, text is spliced into the string.
    With `stays_text` the history is one string and stays one. `ask` takes the request
    of the client, a model, a text and a limit of output tokens, and returns a whole
    request that asks this one thing, without tools or stream.
    """

    turn: Frame
    part: Frame
    wraps_strings: bool
    ask: Callable[[Envelope, str, str, int], bytes]
    content: str = "content"
    stays_text: bool = False


def framed(frame: Frame, text: bytes) -> bytes:
    """Return the escaped text as a JSON string in its frame."""
    return b'%b"%b"%b' % (frame[0], text, frame[1])
