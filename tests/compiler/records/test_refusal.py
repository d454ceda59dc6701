from deuz_compiler.records import refusal as refusals
from deuz_compiler.records.refusal import Refusal
from deuz_compiler.records.trace import Block


def test_refusal_reads_as_one_line_with_its_obstacle() -> None:
    plain = Refusal(reason=refusals.INSUFFICIENT_BUDGET, detail="a is too dear")
    blocked = Refusal(
        reason=refusals.UNSATISFIED_DEPENDENCY,
        detail="a blocked",
        block=Block("collision", "b"),
    )

    assert str(plain) == "a is too dear"
    assert str(blocked) == "a blocked: alternative-collision:b"


def test_every_reason_of_refusal_is_listed_once() -> None:
    constants = [
        value
        for name, value in vars(refusals).items()
        if name.isupper() and isinstance(value, str)
    ]

    assert sorted(constants) == sorted(refusals.REFUSALS)
