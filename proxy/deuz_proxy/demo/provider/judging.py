"""The rules without the server: what would a provider say to this body?

Rules:
- No cache, no window, no state: only what can be seen in the body itself.
"""

import json

from deuz_proxy.demo.provider.exchange import ProviderRequest, Refusal
from deuz_proxy.demo.provider.fields import word
from deuz_proxy.demo.provider.receiving import is_stream_asked
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.wires import WIRES, check_rules


def judge_body(
    wire: str, body: bytes, *, model: str = "", alternate: bool = False
) -> Refusal | None:
    """Return the refusal of the first rule that a body breaks, or None.

    `model` is for Gemini, whose body does not name it.

    Raises:
        ValueError: the body is not JSON.
    """
    request = _understand(wire, body, model)
    return check_rules(request, Signer(), alternate=alternate)


def count_body(wire: str, body: bytes, *, model: str = "") -> int:
    """Return the input tokens that an acceptable body is charged with.

    Raises:
        ValueError: the body is not JSON.
    """
    blocks = WIRES[wire].render(_understand(wire, body, model))
    return sum(block.tokens for block in blocks)


def _understand(wire: str, body: bytes, model: str) -> ProviderRequest:
    payload = json.loads(body)
    return ProviderRequest(
        wire=wire,
        model=model or word(payload.get("model")),
        is_streamed=is_stream_asked(wire, payload),
        payload=payload,
        body=body,
    )
