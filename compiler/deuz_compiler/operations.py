"""The operations: what the ledger holds, by the lineage of the last turn it touches.

Rules:
- An operation has the exact bytes it writes: what a later version would write in other
  words stays as it was.
- None holds an absolute place: the client's leading turns may grow or shrink.
- What shortened a longer history is not in force in one that ends within it: the newest
  step is seen as it is, and the newest question in place or word for word.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

import msgspec
import xxhash

from deuz_compiler.placement.laws import TURN
from deuz_compiler.records.facts import PlacedRecord
from deuz_compiler.wires.own import QUESTION_MARKER
from deuz_compiler.wires.turns import Turns


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
    forgotten. `is_whole`: it stands for the newest step as well, of a history that
    ended here.
    """

    turns: int
    text: bytes
    tokens: int
    form: str = TURN
    kept: tuple[int, ...] = ()
    records: tuple[PlacedRecord, ...] = ()
    is_whole: bool = False

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

_SHORTENING = (Fold, Prune)
_encode = msgspec.msgpack.Encoder().encode


def in_force(
    turns: Turns, operations: Mapping[int, Sequence[Operation]]
) -> Mapping[int, Sequence[Operation]]:
    """Return those that apply to a history of these turns: of most, all of them."""
    kinds = [isinstance(o, _SHORTENING) for held in operations.values() for o in held]
    if not any(kinds):
        return operations
    newest = _newest_step(turns)
    return {
        at: tuple([o for o in held if _applies(o, at, newest, turns)])
        for at, held in operations.items()
    }


def digest_held(
    operations: Mapping[int, Sequence[Operation]], *, end: int | None = None
) -> int:
    """Return 64 bits of all that is held ahead of the turn `end`, in every process.

    Other operations have other ones; which turns they stand behind does not count.
    """
    turns = sorted(operations if end is None else [t for t in operations if t < end])
    if not turns:
        return 0
    return xxhash.xxh3_64_intdigest(_encode([operations[turn] for turn in turns]))


def longest_fold(
    last: int, operations: Mapping[int, Sequence[Operation]]
) -> tuple[int, Fold | None]:
    """Return the fold that reaches furthest in so many turns, and where it is."""
    folds = [
        (index, operation)
        for index, held in operations.items()
        for operation in held
        if isinstance(operation, Fold) and operation.turns <= index + 1 <= last
    ]
    return max(folds, key=itemgetter(0), default=(-1, None))


def shortens(operations: Mapping[int, Sequence[Operation]], turn: int) -> bool:
    """Tell whether one of them would shorten the turn."""
    return any(
        isinstance(each, _SHORTENING)
        and at - (each.turns if isinstance(each, Fold) else 1) < turn <= at
        for at, held in operations.items()
        for each in held
    )


def _newest_step(turns: Turns) -> int:
    """Return where the assistant's last turns begin that nothing parts."""
    at = len(turns)
    while at and turns.peek(at - 1).role != "assistant":
        at -= 1
    while at and turns.peek(at - 1).role == "assistant":
        at -= 1
    return at


def _applies(operation: Operation, at: int, newest: int, turns: Turns) -> bool:
    if isinstance(operation, Prune):
        return at < newest
    if not isinstance(operation, Fold) or operation.is_whole:
        return True
    is_asked_behind = any(turns.peek(i).is_fresh for i in range(at + 1, len(turns)))
    return at < newest and (is_asked_behind or _repeats(operation))


def _repeats(fold: Fold) -> bool:
    return QUESTION_MARKER.encode() in fold.text
