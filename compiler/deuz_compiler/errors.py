"""What can go wrong in the compiler, by stable code.

Rules:
- A refusal that well-formed input can cause is a result, not an error of this file.
- Messages hold numbers and names of fields, never content.
"""


class CompilerError(Exception):
    """Base of all errors the compiler raises."""

    code = "compiler_error"


class NotLifted(CompilerError):
    """A request body is not understood; it is to be forwarded untouched.

    `reason` is one of: `not_json`, `duplicate_key`, `unknown_shape`, `server_state`.
    """

    code = "not_lifted"

    def __init__(self, reason: str) -> None:
        super().__init__(f"request body is not understood: {reason}")
        self.reason = reason


class MalformedInput(CompilerError):
    """Input records break their schema; every fault is listed, none is content."""

    code = "malformed_input"

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults
