"""Taking forgotten records out of what was placed, and nothing else.

Rules:
- Only records of the memory store are meant: they carry their scope, others have none.
- The bytes of the records that stay are what they were. A block that loses its last
  record is gone, and its turn stays bare.
- A summary of turns that were written with a record in sight may repeat it: it goes
  as a whole, and the turns are seen again.
- What was redacted says so: the break it causes is ours, and meant.
"""

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from deuz_compiler.errors import MalformedInput
from deuz_compiler.operations import Append, Bare, Fold, Operation
from deuz_compiler.placement.block import (
    escape_json_string,
    parse_block,
    render_block,
)
from deuz_compiler.records.facts import PlacedRecord


def redact_operations(
    operations: tuple[Operation, ...], scope: str, ids: Container[str]
) -> tuple[Operation, ...]:
    """Return a turn's operations without the records; the very same if none is there.

    Each operation stands where it stood, so that changed ones can be counted.
    """
    changed = tuple([_redacted(each, scope, ids) for each in operations])
    is_same = all(a is b for a, b in zip(operations, changed, strict=True))
    return operations if is_same else changed


def was_redacted(operations: Sequence[Operation]) -> bool:
    """Tell whether a record was taken out of what stands behind the turn."""
    return any(isinstance(o, Append | Bare) and o.is_redacted for o in operations)


def was_unfolded(operations: Mapping[int, Sequence[Operation]], turn: int) -> bool:
    """Tell whether a summary that stood for the turn was taken out."""
    return any(
        isinstance(each, Bare) and last - each.folded < turn <= last
        for last, held in operations.items()
        for each in held
    )


def records_of(operations: Iterable[Operation]) -> tuple[PlacedRecord, ...]:
    """Return the records of the memory store that the operations show or may repeat."""
    found: dict[tuple[str, str], PlacedRecord] = {}
    for each in operations:
        for record in each.records if isinstance(each, Append | Fold) else ():
            if record.scope:
                found.setdefault((record.scope, record.record_id), record)
    return tuple(found.values())


def _redacted(operation: Operation, scope: str, ids: Container[str]) -> Operation:
    if isinstance(operation, Fold):
        is_meant = any(_is_meant(record, scope, ids) for record in operation.records)
        return Bare(is_redacted=True, folded=operation.turns) if is_meant else operation
    if not isinstance(operation, Append):
        return operation
    stays = [not _is_meant(record, scope, ids) for record in operation.records]
    if all(stays):
        return operation
    if not any(stays):
        return Bare(is_redacted=True)
    return _without(operation, stays)


def _is_meant(record: PlacedRecord, scope: str, ids: Container[str]) -> bool:
    return record.scope == scope and record.record_id in ids


def _without(append: Append, stays: Sequence[bool]) -> Operation:
    try:
        written = parse_block(msgspec.json.decode(b'"%b"' % append.text, type=str))
    except (MalformedInput, msgspec.DecodeError):
        written = ()
    if len(written) != len(stays):
        # Not a block as we write it: what cannot be cut goes as a whole.
        return Bare(is_redacted=True)
    kept = [record for record, is_kept in zip(written, stays, strict=True) if is_kept]
    placed = zip(append.records, stays, strict=True)
    text = escape_json_string(render_block(kept))
    return Append(
        text=text,
        records=tuple([record for record, is_kept in placed if is_kept]),
        tokens=max(1, append.tokens * len(text) // len(append.text)),
        form=append.form,
        is_redacted=True,
    )
