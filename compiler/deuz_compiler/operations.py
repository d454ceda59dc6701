"""The operations: what the ledger holds, by the lineage of the last turn it touches.

Rules:
- An operation has the exact bytes it writes: what a later version would write in other
  words stays as it was.
- None holds an absolute place: the client's leading turns may grow or shrink.
"""

import msgspec

from deuz_compiler.placement.laws import TURN
from deuz_compiler.records.facts import PlacedRecord


class Append(msgspec.Struct, frozen=True, gc=False, tag="append"):
    """A block behind the turn. `text` is the content of a JSON string, escaped.

    `is_redacted`: it held more records, which were forgotten.
    """

    text: bytes
    records: tuple[PlacedRecord, ...]
    tokens: int
    form: str = TURN
    is_redacted: bool = False


class Fold(msgspec.Struct, frozen=True, gc=False, tag="fold"):
    """The last `turns` turns up to here replaced by a summary; `text` is escaped.

    `kept` are those of them that stay, behind the summary and in this order, counted
    back from the last one, which is 0. `records` of the memory store were in sight when
    those turns were written: the summary may repeat them, and goes when one is
    forgotten.
    """

    turns: int
    text: bytes
    tokens: int
    form: str = TURN
    kept: tuple[int, ...] = ()
    records: tuple[PlacedRecord, ...] = ()

    @property
    def plain_text(self) -> str:
        """The summary as a person would read it."""
        return msgspec.json.decode(b'"' + self.text + b'"', type=str)


class Prune(msgspec.Struct, frozen=True, gc=False, tag="prune"):
    """Parts of the turn replaced by stubs: pairs of part index and JSON text."""

    stubs: tuple[tuple[int, bytes], ...]


class Bare(msgspec.Struct, frozen=True, gc=False, tag="bare"):
    """Nothing stands behind the turn, for good: it was answered without a block.

    A block put there later would change the prefix of all that went on from it.
    `is_redacted`: a block stood there, all of whose records were forgotten; or, with
    `folded`, a summary of so many turns up to here, which may have repeated one.
    """

    is_redacted: bool = False
    folded: int = 0


class TailCopy(msgspec.Struct, frozen=True, gc=False, tag="tail_copy"):
    """Working memory as it ended a request; it stays behind the turn, and any block.

    `text` is escaped, `records` name what of the memory it shows.
    """

    text: bytes
    records: tuple[str, ...]
    tokens: int
    form: str = TURN


Operation = Append | Fold | Prune | Bare | TailCopy
