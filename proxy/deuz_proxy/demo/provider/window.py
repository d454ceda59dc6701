"""The context window, and how each wire says that a request does not fit.

Rules:
- Anthropic counts the requested output only for models before 4.5; OpenAI's chat
  counts it when the client asks for one; Responses and Gemini count the input alone.
- Ollama is not asked here: it has cut what does not fit, see `prompt_ollama`.
- The words and numbers are the providers'; Responses give none.
"""

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    RESPONSES,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.traits import reserves_output

OVERFLOW = "overflow"
_CODE = "context_length_exceeded"


def check_window(
    request: ProviderRequest, *, tokens: int, output: int | None, limit: int
) -> Refusal | None:
    """Return the provider's overflow answer, or None if the request fits."""
    if tokens > limit:
        return _input_overflow(request.wire, tokens, limit)
    if output is None or tokens + output <= limit:
        return None
    if request.wire == ANTHROPIC and reserves_output(request.model):
        return Refusal(
            OVERFLOW,
            f"input length and `max_tokens` exceed context limit: {tokens} + {output} "
            f"> {limit}, decrease input length or `max_tokens` and try again",
        )
    if request.wire == CHAT:
        return Refusal(
            OVERFLOW,
            f"This model's maximum context length is {limit} tokens. However, you "
            f"requested {tokens + output} tokens ({tokens} in the messages, {output} "
            "in the completion). Please reduce the length of the messages or "
            "completion.",
            code=_CODE,
            param="messages",
        )
    return None


def _input_overflow(wire: str, tokens: int, limit: int) -> Refusal | None:
    answers = {
        ANTHROPIC: Refusal(
            OVERFLOW, f"prompt is too long: {tokens} tokens > {limit} maximum"
        ),
        CHAT: Refusal(
            OVERFLOW,
            f"This model's maximum context length is {limit} tokens. However, your "
            f"messages resulted in {tokens} tokens. Please reduce the length of the "
            "messages.",
            code=_CODE,
            param="messages",
        ),
        RESPONSES: Refusal(
            OVERFLOW,
            "Your input exceeds the context window of this model. Please adjust your "
            "input and try again.",
            code=_CODE,
            param="input",
        ),
        GEMINI: Refusal(
            OVERFLOW,
            f"The input token count ({tokens}) exceeds the maximum number of tokens "
            f"allowed ({limit}).",
        ),
    }
    return answers[wire]
