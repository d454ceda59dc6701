from typing import Any

from deuz_proxy.demo.provider.exchange import GEMINI, ProviderRequest
from deuz_proxy.demo.provider.prompt_gemini import ask_gemini, render_gemini
from deuz_proxy.demo.provider.tokens import MEDIA_TOKENS

Json = dict[str, Any]
USER = {"role": "user", "parts": [{"text": "hi"}]}


def asked(*turns: Json, **members: Any) -> ProviderRequest:
    payload = {"contents": list(turns), **members}
    return ProviderRequest(GEMINI, "fake", False, payload, b"")


def prompt(*turns: Json, **members: Any) -> bytes:
    return b"".join(b.text for b in render_gemini(asked(*turns, **members)))


def test_the_system_instruction_comes_first_in_either_spelling() -> None:
    system = {"parts": [{"text": "be brief"}]}

    assert prompt(USER, systemInstruction=system) == prompt(
        USER, system_instruction=system
    )
    assert prompt(USER, systemInstruction=system).startswith(b"be brief")


def test_signatures_are_not_rendered() -> None:
    call = {"functionCall": {"name": "t"}}
    signed = {**call, "thoughtSignature": "x"}

    assert prompt({"role": "model", "parts": [call]}) == prompt(
        {"role": "model", "parts": [signed]}
    )


def test_inline_media_cost_a_fixed_number_of_tokens() -> None:
    media = {"inlineData": {"mimeType": "image/png", "data": "A" * 9_000}}

    blocks = render_gemini(asked({"role": "user", "parts": [media]}))

    assert blocks[-1].tokens == MEDIA_TOKENS


def test_question_tools_choice_and_limit_are_read() -> None:
    schema = {"type": "OBJECT"}
    ask = ask_gemini(
        asked(
            USER,
            tools=[{"functionDeclarations": [{"name": "t", "parameters": schema}]}],
            toolConfig={"functionCallingConfig": {"mode": "ANY"}},
            generationConfig={"maxOutputTokens": 7, "responseSchema": schema},
        )
    )

    assert (ask.line, ask.choice, ask.max_output_tokens) == ("hi", "any", 7)
    assert ask.tools == (("t", schema),)
    assert ask.schema == schema
