import pytest

from deuz_compiler.wires.openai_responses.items import (
    CALLS,
    MESSAGE,
    RESULTS,
    SEALED,
    role_of_item,
)


@pytest.mark.parametrize(
    ("kind", "role", "expected"),
    [
        (MESSAGE, "user", "user"),
        (MESSAGE, "assistant", "assistant"),
        (MESSAGE, "system", "system"),
        (MESSAGE, "developer", "system"),
        ("function_call", "", "assistant"),
        ("reasoning", "", "assistant"),
        ("web_search_call", "", "assistant"),
        ("mcp_list_tools", "", "assistant"),
        ("something_new", "", "assistant"),
        ("item_reference", "", "assistant"),
        ("compaction", "", "assistant"),
        ("function_call_output", "", "tool"),
        ("mcp_approval_response", "", "tool"),
        ("additional_tools", "", "system"),
        ("configuration_update", "", "system"),
    ],
)
def test_an_item_is_somebodys_turn(kind: str, role: str, expected: str) -> None:
    assert role_of_item(kind, role) == expected


def test_no_kind_is_two_things() -> None:
    assert not RESULTS & CALLS.keys()
    assert not SEALED & (RESULTS | CALLS.keys())
