"""The kinds of items in the input of a Responses request, and whose turn each is.

Rules:
- An item without a type is a message.
- A call is what the client has to answer; what the provider's own tools did stands in
  one item with its outcome.
- Items that hold the provider's summaries, or stand for something it keeps, are sealed.
"""

MESSAGE = "message"
# The member that says what is called with; the name is the tool's, or the item's type.
CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "computer_call": "action",
    "tool_search_call": "arguments",
    "mcp_approval_request": "arguments",
    "program": "code",
}
RESULTS = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        "computer_call_output",
        "tool_search_output",
        "mcp_approval_response",
        "program_output",
    }
)
_RUN_STATE = frozenset({"additional_tools", "configuration_update"})
SEALED = _RUN_STATE | {
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "item_reference",
}
_ROLES = {"developer": "system"}


def role_of_item(kind: str, role: str) -> str:
    """Return whose turn the item is, wire-neutral: outputs are a tool's."""
    if kind == MESSAGE:
        return _ROLES.get(role, role)
    if kind in RESULTS:
        return "tool"
    return "system" if kind in _RUN_STATE else "assistant"
