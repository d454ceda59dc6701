"""What a meter notes, and what counts as a value that carries something."""

import msgspec
import pytest

from deuz_compiler.wires.metering import Notes, is_filled


def test_first_error_is_the_one_that_is_kept() -> None:
    notes = Notes(keeps_text=False)

    notes.add_error(b"first")
    notes.add_error(b"second")

    assert notes.facts().error_body == b"first"


@pytest.mark.parametrize("value", [b"", b"null", b'""', b"[]", b"{}"])
def test_empty_values_carry_nothing(value: bytes) -> None:
    assert not is_filled(msgspec.Raw(value))


@pytest.mark.parametrize("value", [b'" "', b"0", b"[null]", b"false"])
def test_other_values_carry_something(value: bytes) -> None:
    assert is_filled(msgspec.Raw(value))
