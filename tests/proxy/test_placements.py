import pytest

from deuz_compiler import Append, Bare, PlacedRecord, Surface
from deuz_compiler.surface import Block
from deuz_proxy.calls import Call, Compiled
from deuz_proxy.placements import tell_placements, tell_stood
from deuz_testing.bodies import anthropic_body, user
from deuz_testing.conversation import admitted
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest

RECORDS = (PlacedRecord("docs", "r1", "1", "sha256:00"),)
OLD, NEW = Append(b"O", RECORDS, 7), Append(b"N", RECORDS, 9)
SURFACE = Surface((), (), (Block(0, OLD), Block(2, NEW)))
COMPILED = Compiled(b"", SURFACE, pending={2: (NEW,)})


async def call_in(mode: str) -> Call:
    runtime = make_runtime(make_config(mode=mode), Told())
    return await admitted(runtime, GivenRequest(anthropic_body([user("q")])))


@pytest.mark.parametrize(
    ("mode", "is_accepted", "states"),
    [
        ("compile", True, ["placed", "placed"]),
        ("compile", False, ["placed", "dropped"]),
        ("shadow", True, ["shadow", "shadow"]),
    ],
)
async def test_a_new_block_is_told_by_what_became_of_its_request(
    mode: str, is_accepted: bool, states: list[str]
) -> None:
    told = tell_placements(await call_in(mode), COMPILED, is_accepted=is_accepted)

    assert [each.state for each in told] == states
    assert [each.is_new for each in told] == [False, True]
    assert [each.records for each in told] == [("docs/r1",)] * 2
    assert [(each.turn, each.tokens) for each in told] == [(0, 7), (2, 9)]


async def test_without_a_surface_nothing_is_told() -> None:
    call = await call_in("compile")

    assert tell_placements(call, Compiled(b""), is_accepted=True) == ()


async def test_what_stood_before_is_told_as_on_the_surface_that_it_stands_on() -> None:
    compiled = Compiled(b"", SURFACE)
    told = tell_placements(await call_in("compile"), compiled, is_accepted=True)

    assert tell_stood({0: (OLD,), 1: (Bare(),), 2: (NEW, Bare())}) == told
