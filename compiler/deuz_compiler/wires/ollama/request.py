"""The requests of Ollama: chats, and generation from one prompt.

Rules:
- All is rendered by the model's template. Contents are strings and stay strings: a
  part is spliced into the user's words.
- A stream is the default. The size of the window is the request's, `options.num_ctx`:
  another one loads the model anew, and its cache is gone.
- A prompt is one user turn, and text may be added at its end. With `context` the
  provider holds the turns before it; with `raw` the client has rendered it, and with
  `suffix` it is half of a text: then nothing is added.
"""

import msgspec

from deuz_compiler.wires.envelope import Envelope
from deuz_compiler.wires.glancing import Peek, make_glance
from deuz_compiler.wires.rules import Rules
from deuz_compiler.wires.writing import Writing


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw = msgspec.Raw(b"null")
    images: msgspec.Raw = msgspec.Raw(b"null")
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


_message = msgspec.json.Decoder(_Message)
_text = msgspec.json.Decoder(str)
_NOTHING = frozenset({b"null", b"[]"})
_PARAMS = frozenset({"options.num_ctx", "think", "template"})


def _read_message(raw: bytes) -> tuple[Peek, bytes]:
    message = _message.decode(raw)
    content = bytes(message.content)
    has_text = content.startswith(b'"')
    is_shown = content != b'""' or bytes(message.images) not in _NOTHING
    peek = Peek(
        message.role,
        is_fresh=message.role == "user" and has_text and is_shown,
        opens_calls=message.role == "assistant"
        and bytes(message.tool_calls) not in _NOTHING,
    )
    return peek, raw


def _read_prompt(raw: bytes) -> tuple[Peek, bytes]:
    return Peek("user", bool(_text.decode(raw)), opens_calls=False), raw


CHAT_RULES = Rules(
    wire="ollama_chat",
    history="messages",
    system=None,
    params=_PARAMS,
    output_limits=("options.num_predict",),
    read=_read_message,
    glance=make_glance(
        roles=("system", "user", "assistant", "tool"),
        text="content",
        seen=("images", "tool_calls"),
    ),
    nested=("options",),
    defaults=(("think", False),),
    windows=("options.num_ctx",),
    is_streamed=True,
    media=b'"images"',
)
GENERATE_RULES = Rules(
    wire="ollama_generate",
    history="prompt",
    system="system",
    params=_PARAMS,
    output_limits=("options.num_predict",),
    read=_read_prompt,
    lone=b'"',
    nested=("options",),
    defaults=(("think", False),),
    server_state=("context",),
    is_continued=lambda context: context not in _NOTHING,
    foreign=("raw", "suffix"),
    windows=("options.num_ctx",),
    is_streamed=True,
)


class _Settings(msgspec.Struct):
    model: str = ""
    options: dict[str, object] | None = None


_settings = msgspec.json.Decoder(_Settings)


def _ask_chat(asker: Envelope, model: str, text: str, output_tokens: int) -> bytes:
    messages = [{"role": "user", "content": text}]
    return _asked(asker, {"model": model, "messages": messages}, output_tokens)


def _ask_prompt(asker: Envelope, model: str, text: str, output_tokens: int) -> bytes:
    return _asked(asker, {"model": model, "prompt": text}, output_tokens)


def _asked(asker: Envelope, body: dict[str, object], output_tokens: int) -> bytes:
    # The client's own options: another window would load the model anew.
    options = _settings.decode(asker.body).options or {}
    limited = {**options, "num_predict": output_tokens}
    return msgspec.json.encode({**body, "options": limited, "stream": False})


CHAT_WRITING = Writing(
    turn=(b'{"role":"user","content":', b"}"),
    part=(b"", b""),
    wraps_strings=False,
    ask=_ask_chat,
)
GENERATE_WRITING = Writing(
    turn=(b"", b""),
    part=(b"", b""),
    wraps_strings=False,
    ask=_ask_prompt,
    stays_text=True,
)
