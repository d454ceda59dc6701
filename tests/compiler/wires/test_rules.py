from deuz_compiler.wires.glancing import Peek
from deuz_compiler.wires.rules import Rules


def test_a_wire_that_says_no_more_than_it_must_is_a_plain_one() -> None:
    rules = Rules(
        wire="w",
        history="h",
        system=None,
        params=frozenset(),
        output_limits=(),
        read=lambda raw: (Peek("user", is_fresh=True, opens_calls=False), raw),
    )

    assert rules.needs_model
    assert not rules.is_streamed
    assert (rules.lone, rules.hidden, rules.nested) == (b"", None, ())
    assert rules.read(b"raw")[1] == b"raw"
