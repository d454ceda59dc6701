import pytest

from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    CHAT,
    GEMINI,
    OLLAMA,
    OTHER,
    RESPONSES,
    ProviderRequest,
    Refusal,
)
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.wires import WIRES, check_rules, spell_error


def test_every_wire_of_the_exchange_is_in_the_table() -> None:
    assert set(WIRES) == {ANTHROPIC, CHAT, RESPONSES, GEMINI, *OLLAMA}


@pytest.mark.parametrize("wire", sorted(WIRES))
def test_an_empty_request_breaks_a_rule_on_every_wire(wire: str) -> None:
    request = ProviderRequest(wire, "fake", False, {"model": "fake"}, b"")

    refusal = check_rules(request, Signer(), alternate=False)

    assert refusal is not None


@pytest.mark.parametrize(
    ("wire", "place"),
    [
        (ANTHROPIC, ("error", "message")),
        (CHAT, ("error", "message")),
        (GEMINI, ("error", "message")),
        (OTHER, ("error", "message")),
    ],
)
def test_an_error_carries_its_message_where_the_wire_has_it(
    wire: str, place: tuple[str, str]
) -> None:
    error = spell_error(wire, Refusal("rule", "no", status=429), "1")

    assert error[place[0]][place[1]] == "no"
