from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.watch import _USUAL, Watch
from deuz_proxy.serve import serve_call
from deuz_testing.bodies import anthropic_body
from deuz_testing.conversation import ASK, anthropic_answer
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenClient, GivenRequest, ScriptedUpstreams


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_is_what_was_added_without_what_was_waited_for() -> None:
    clock = Clock()
    watch = Watch(clock)

    watch.enter("forward")
    clock.now += 1
    with watch.waiting():
        clock.now += 50
    clock.now += 2
    watch.enter(None)

    assert watch.stages() == (("forward", "total"), (3.0, 3.0))
    assert watch.elapsed() == 53.0


def test_a_stage_ends_where_the_next_one_begins() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.enter("admit")
    clock.now += 1
    watch.enter("recall")
    clock.now += 2

    watch.enter("compile")

    assert watch.stages() == (("admit", "recall", "total"), (1.0, 2.0, 3.0))


def test_what_is_between_two_stages_is_nobodys() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.enter("forward")
    clock.now += 1
    watch.enter(None)
    clock.now += 60
    with watch.waiting():
        clock.now += 60
    watch.enter("settle")
    clock.now += 2

    watch.enter(None)

    assert watch.stages() == (("forward", "settle", "total"), (1.0, 2.0, 3.0))


def test_a_wait_before_any_stage_is_nobodys() -> None:
    clock = Clock()
    watch = Watch(clock)

    with watch.waiting():
        clock.now += 5
    clock.now += 1
    watch.enter("admit")
    clock.now += 2
    watch.enter(None)

    assert watch.stages() == (("admit", "total"), (2.0, 2.0))


def test_a_stage_that_waits_twice_is_one_stage() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.enter("forward")
    for _ in range(2):
        clock.now += 1
        with watch.waiting():
            clock.now += 9
    clock.now += 1
    watch.enter("settle")

    assert watch.stages() == (("forward", "total"), (3.0, 3.0))


def test_a_stage_entered_twice_is_summed() -> None:
    clock = Clock()
    watch = Watch(clock)
    for stage, seconds in (("settle", 1), ("admit", 4), ("settle", 2)):
        watch.enter(stage)
        clock.now += seconds

    watch.enter(None)

    assert watch.stages() == (("settle", "admit", "total"), (3.0, 4.0, 7.0))


def test_a_stage_that_fails_or_a_wait_that_is_cut_is_counted_all_the_same() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.enter("forward")
    clock.now += 1
    try:
        with watch.waiting():
            clock.now += 5
            raise ValueError  # noqa: TRY301
    except ValueError:
        pass

    watch.enter("settle")

    assert watch.stages() == (("forward", "total"), (1.0, 1.0))


def test_a_clock_that_steps_back_never_gives_a_negative_stage() -> None:
    clock = Clock()
    watch = Watch(clock)
    watch.enter("admit")
    clock.now -= 10

    watch.enter(None)

    assert watch.stages() == (("admit", "total"), (0.0, 0.0))


USUAL = "admit", "recall", "compile", "forward", "wait", "settle", None, "settle"
WAYS = st.one_of(
    st.just(USUAL),
    st.lists(st.sampled_from((*USUAL, "wait")), max_size=12),
)


@given(way=WAYS, steps=st.lists(st.integers(-1, 9), min_size=24, max_size=24))
def test_any_way_is_what_is_added_up_step_by_step(
    way: Sequence[str | None], steps: list[int]
) -> None:
    clock, expected = Clock(), defaultdict[str, float](float)
    watch, stage = Watch(clock), None
    for entered, own, waited in zip(way, steps, steps[12:], strict=False):
        if entered == "wait":
            with watch.waiting():
                clock.now += waited
        else:
            watch.enter(entered)
            stage = entered
        clock.now += own
        if stage is not None:
            expected[stage] += max(own, 0)
    if way != USUAL:
        watch.enter(None)
    else:
        # The stage in which it is told has not ended.
        expected["settle"] -= max(steps[len(USUAL) - 1], 0)

    assert watch.stages() == (
        (*expected, "total"),
        (*expected.values(), sum(expected.values())),
    )


@pytest.mark.parametrize(
    ("mode", "is_here"), [("observe", False), ("observe", True), ("compile", True)]
)
async def test_the_line_goes_the_usual_way(mode: str, is_here: bool) -> None:
    """Else each request would be added up in the long way, and nothing would tell."""
    upstreams = ScriptedUpstreams()
    runtime = make_runtime(make_config(mode=mode), Told(), upstreams=upstreams)
    watch = Watch(runtime.monotonic)
    upstreams.answers.put_nowait(replace(anthropic_answer(), is_here=is_here))

    await serve_call(GivenRequest(anthropic_body(ASK)), GivenClient(), runtime, watch)

    assert watch._stages == _USUAL
