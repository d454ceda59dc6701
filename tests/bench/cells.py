"""What is asked of each subject: sizes, concurrency, and how a conversation grows.

Rules:
- `first` opens a new conversation with each request; `known` sends histories that
  were seen before, with one step of 2 KB more. One repeated body measures neither.
- Their steps end in a turn of the user: the compile subject has to search and place
  each time, its worst case.
- `placed` is what most turns of real agents are: ten blocks stand already, and tool
  results come, for which nothing is asked. Paced streams answer such turns: what a
  search costs is no event's.
- All numbers of requests are fixed and small: a sample cannot run away.
"""

from dataclasses import dataclass

from tests.bench.bodies import PLACED_STEPS

MAX_SECONDS = 25
BURST_EVENTS = 1_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload: `talks` conversations over `concurrency` connections.

    `primed` requests of each conversation come before the measurement, `steps` are
    measured. Of a stream, `events` come, each so many microseconds behind the last.
    """

    name: str
    size: str
    concurrency: int
    talks: int
    primed: int
    steps: int
    is_streamed: bool = False
    is_placed: bool = False
    events: int = 100
    gap_microseconds: int = 10_000

    @property
    def template(self) -> str:
        """The name of the file with its bodies."""
        placed = "-placed" if self.is_placed else ""
        streamed = "-stream" if self.is_streamed else ""
        return f"{self.size}{placed}{streamed}.template"


def list_cells(*, primed: int, scale: float) -> tuple[Cell, ...]:
    """Return the workloads; `scale` 1 is the full form."""

    def count(full: int) -> int:
        return max(1, round(full * scale))

    placed = PLACED_STEPS
    return (
        Cell("2k c1", "2k", 1, 1, 0, count(1500)),
        Cell("2k c64", "2k", 64, 64, 0, count(120)),
        Cell("100k known c1", "100k", 1, 48, primed, count(16)),
        Cell("100k known c64", "100k", 64, 192, primed, count(12)),
        Cell("100k first c1", "100k", 1, 1, 0, count(600)),
        Cell("100k first c64", "100k", 64, 64, 0, count(40)),
        Cell("1m known c1", "1m", 1, 24, primed, count(10)),
        Cell("1m known c64", "1m", 64, 64, primed, count(8)),
        Cell("1m first c1", "1m", 1, 1, 0, count(200)),
        Cell("1m first c64", "1m", 64, 64, 0, count(8)),
        Cell("2k placed c1", "2k", 1, 12, placed, count(40), is_placed=True),
        Cell("100k placed c1", "100k", 1, 12, placed, count(24), is_placed=True),
        Cell("1m placed c1", "1m", 1, 8, placed, count(12), is_placed=True),
        Cell("2k placed c64", "2k", 64, 192, placed, count(24), is_placed=True),
        Cell("100k placed c64", "100k", 64, 64, placed, count(24), is_placed=True),
        Cell("1m placed c64", "1m", 64, 64, placed, count(12), is_placed=True),
        Cell(
            "64 streams",
            "2k",
            64,
            64,
            placed,
            count(3),
            is_streamed=True,
            is_placed=True,
        ),
        make_burst(count(8)),
    )


def make_burst(steps: int) -> Cell:
    """Return streams whose events come as fast as they are taken."""
    return Cell(
        "burst of 4 streams",
        "2k",
        4,
        4,
        0,
        steps,
        is_streamed=True,
        events=BURST_EVENTS,
        gap_microseconds=0,
    )
