"""What is peculiar about the request bodies of one wire: each fills it in, all read it.

Rules:
- A rule that a provider does not have is at its default; nothing here knows a provider.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from deuz_compiler.wires.glancing import NO_GLANCE, Glance, Read


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What is peculiar about one wire's request body.

    `read` takes the bytes of a turn and returns what it is and its text as the
    provider renders it; it may raise `UNREADABLE`. Turns that are plain to `glance` are
    what `read` makes of any of them, rendered as they stand. A history that begins with
    `lone` instead of a list is one turn of the user. Members are known by what `spell`
    makes of their names; those of the `nested` ones by both names with a dot.
    With one of the `foreign` filled, the body is not understood. What the `hidden` one
    names stands ahead of the prompt and is not in the body. `media` is in a turn that
    may hold embedded media.
    """

    wire: str
    history: str
    system: str | None
    params: frozenset[str]
    output_limits: tuple[str, ...]
    read: Read
    glance: Glance = NO_GLANCE
    lone: bytes = b""
    # A parameter at its default is as good as absent, and so is one that is null.
    defaults: tuple[tuple[str, Any], ...] = ()
    is_params_last: bool = False
    # Without one nothing is read from the cache; None where all is cached by itself.
    cache_marker: bytes | None = None
    # The member that asks to cache each prompt to its end.
    end_marker: str = ""
    # Where it is needed only if this parameter holds this word.
    marked_only: tuple[str, bytes] | None = None
    server_state: tuple[str, ...] = ()
    is_continued: Callable[[bytes], bool] = bool
    spell: Callable[[str], str] | None = None
    nested: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    hidden: str | None = None
    media: bytes = b"base64"
    # Where the path may name the model instead.
    needs_model: bool = True
    windows: tuple[str, ...] = ()
    is_streamed: bool = False
