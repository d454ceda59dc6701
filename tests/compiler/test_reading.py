from dataclasses import dataclass

from deuz_compiler import (
    Append,
    Bare,
    Held,
    Operation,
    Reading,
    TailCopy,
    block_text,
)

BLOCK = Append(b"B", (), 1)
BARE = Bare()


@dataclass
class Entry:
    operations: tuple[Operation, ...]

    @property
    def text(self) -> bytes:
        return block_text(self.operations)


def test_text_is_the_blocks_wherever_it_stands_among_the_operations() -> None:
    copy = TailCopy(b"T", (), 1)

    assert block_text((BLOCK,)) == b"B"
    assert block_text((BARE, BLOCK)) == b"B"
    assert block_text((BLOCK, copy)) == b"B"
    assert block_text((copy,)) == b""
    assert block_text((BARE,)) == b""
    assert block_text(()) == b""


def test_texts_are_those_of_the_blocks_in_their_order() -> None:
    more = Append(b"C", (), 1)
    entries = Entry((BLOCK,)), Entry((BARE,)), Entry((more,))

    assert Reading(dict(enumerate(entries)), 4).texts() == [b"B", b"C"]


def test_operations_are_those_by_turn_without_what_was_let_go() -> None:
    entries: dict[int, Held] = {1: Entry((BLOCK,)), 3: Entry(()), 5: Entry((BARE,))}

    assert Reading(entries, 6).operations() == {1: (BLOCK,), 5: (BARE,)}


def test_of_fewer_turns_is_known_what_those_held() -> None:
    first, last = Entry((BLOCK,)), Entry((BARE,))
    reading = Reading({1: first, 5: last}, 7, 3, 4.0, 99)

    assert reading.up_to(7) is reading
    assert reading.up_to(8) == Reading(reading.held, 8, 3, 4.0, 99)
    assert reading.up_to(6) == Reading(reading.held, 6, 3, 4.0, 99)
    # The digest was that of more.
    assert reading.up_to(5) == Reading({1: first}, 5, 3, 4.0)
