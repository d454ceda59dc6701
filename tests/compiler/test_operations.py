from typing import Any

import msgspec
import pytest

from deuz_compiler import (
    Append,
    Bare,
    Fold,
    Operation,
    PlacedRecord,
    Prune,
    TailCopy,
)

EACH: list[Operation] = [
    Append(b"text", (PlacedRecord("docs", "r1", "1", "sha256:00"),), 7, "part"),
    Fold(3, b"summary", 5),
    Prune(((0, b'"stub"'),)),
    Bare(is_redacted=True),
    TailCopy(b"notes", ("working-memory/goal",), 9, "part"),
]


@pytest.mark.parametrize("operation", EACH, ids=lambda each: type(each).__name__)
def test_an_operation_comes_out_of_a_store_as_it_went_in(operation: Any) -> None:
    kept = msgspec.msgpack.encode((operation,))

    assert msgspec.msgpack.decode(kept, type=tuple[Operation, ...]) == (operation,)


def test_a_summary_reads_as_a_person_would_write_it() -> None:
    assert Fold(1, rb"two\nlines, \"said\"", 5).plain_text == 'two\nlines, "said"'
