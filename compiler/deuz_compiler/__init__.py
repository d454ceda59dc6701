"""deuz_compiler thinks: pure functions from bytes and values to bytes and values.

This is the front door: the only names the proxy may use.
"""

from deuz_compiler.errors import CompilerError, MalformedInput, NotLifted
from deuz_compiler.verdict import SegmentShare, Verdict
from deuz_compiler.wires.envelope import Edit, Envelope, Span, Turn, lower
from deuz_compiler.wires.usage import Usage

__all__ = [
    "CompilerError",
    "Edit",
    "Envelope",
    "MalformedInput",
    "NotLifted",
    "SegmentShare",
    "Span",
    "Turn",
    "Usage",
    "Verdict",
    "lower",
]
