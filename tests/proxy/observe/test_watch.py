from deuz_proxy.observe.watch import Watch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_stage_is_what_was_added_without_what_was_waited_for() -> None:
    clock = Clock()
    watch = Watch(clock)

    with watch.stage("forward"):
        clock.now += 1
        with watch.waiting():
            clock.now += 50
        clock.now += 2

    assert watch.stages() == (("forward", 3.0), ("total", 3.0))
    assert watch.elapsed() == 53.0


def test_a_stage_entered_twice_is_summed() -> None:
    clock = Clock()
    watch = Watch(clock)
    for seconds in (1, 2):
        with watch.stage("settle"):
            clock.now += seconds
    with watch.stage("admit"):
        clock.now += 4

    assert watch.stages() == (("settle", 3.0), ("admit", 4.0), ("total", 7.0))


def test_a_stage_that_fails_or_a_wait_that_is_cut_is_counted_all_the_same() -> None:
    clock = Clock()
    watch = Watch(clock)
    try:
        with watch.stage("forward"), watch.waiting():
            clock.now += 5
            raise ValueError  # noqa: TRY301
    except ValueError:
        pass

    assert watch.stages() == (("forward", 0.0), ("total", 0.0))


def test_a_clock_that_steps_back_never_gives_a_negative_stage() -> None:
    clock = Clock()
    watch = Watch(clock)

    with watch.stage("admit"):
        clock.now -= 10

    assert watch.stages() == (("admit", 0.0), ("total", 0.0))
