"""What the live page shows of one request: its bar, its notes, its sentence."""

from typing import Any

import pytest
from msgspec.structs import replace

from deuz_compiler import Usage
from deuz_proxy.observe.events import Placement, Prediction
from deuz_testing.browser import Tab
from deuz_testing.feed_events import broken, finished
from deuz_testing.served_page import ROWS, Served, open_session, text_of

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium")]


async def test_notes_tell_placements_overflow_and_compaction(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    assert (await text_of(tab, "[data-id=r2] .notes")).splitlines() == [
        "Placed: r-units, guide.md#2 — new, behind turn 4, 300 tokens",
        "1 record left out: the reasons are under Details",
    ]
    assert (await text_of(tab, "[data-id=r4] .notes")).splitlines() == [
        "Overflow, rejected: recovered (9 921 asked for, 8 192 allowed)",
        "Compacted, prune tool results: 9 921 → 7 400 tokens (rejected)",
        "Compacted, summarize: 7 400 → 6 280 tokens (rejected)",
        "Placed: r-units, guide.md#2 — behind turn 4, 300 tokens",
    ]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("shadow", "Would place: r-units — new, behind turn 4, 240 tokens"),
        (
            "dropped",
            "Not placed, the request was not accepted: r-units — new, behind turn 4, "
            "240 tokens",
        ),
    ],
)
async def test_block_that_is_not_on_the_surface_is_not_called_placed(
    tab: Tab, served: Served, state: str, words: str
) -> None:
    block = Placement(4, ("r-units",), 240, is_new=True, state=state)
    served.feed(finished("r1", conversation="c1", placements=(block,)))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 1")

    assert await text_of(tab, ".notes") == words
    assert "placed" not in await text_of(tab, "#conversations")


async def test_route_that_only_watches_has_no_note_of_it(
    tab: Tab, served: Served
) -> None:
    served.feed(finished("r1", mode="observe", passthrough="observe"))
    served.feed(finished("r2", mode="observe", passthrough="not_json"))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 2")

    assert await tab.run("document.querySelector('[data-id=r1] .notes')") is None
    assert await text_of(tab, "[data-id=r2] .notes") == (
        "Passed through untouched: not json"
    )


async def test_break_of_what_is_gone_has_no_byte(tab: Tab, served: Served) -> None:
    gone = broken(cause="system_removed", offset=0)
    served.feed(finished("r1", verdict=gone))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 1")

    assert (await text_of(tab, ".sentence")).startswith(
        "Broken at system: system prompt removed"
    )


async def test_bar_is_divided_in_proportion_to_tokens(tab: Tab, served: Served) -> None:
    await open_session(tab, served)

    widths: list[list[Any]] = await tab.run(
        "[...document.querySelectorAll('[data-id=r3] .share')].map((share) => ["
        "share.parentNode.dataset.segment, share.dataset.share, "
        "share.getBoundingClientRect().width])"
    )

    expected = [
        ("tools", "reused", 2_000),
        ("system", "lost", 800),
        ("turn", "lost", 700),
        ("turn", "new", 500),
        ("context", "lost", 300),
    ]
    assert [tuple(part[:2]) for part in widths] == [part[:2] for part in expected]
    whole = sum(width for _, _, width in widths)
    for (_, _, width), (_, _, tokens) in zip(widths, expected, strict=True):
        assert width / whole == pytest.approx(tokens / 4_300, abs=0.005)


async def test_bar_has_its_numbers_in_words_for_those_who_do_not_see_it(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    label = await tab.run(
        "document.querySelector('[data-id=r3] .bar').getAttribute('aria-label')"
    )
    title = await tab.run("document.querySelector('[data-id=r3] .share.lost').title")

    assert label.replace("\u202f", " ") == (
        "4 300 tokens: tools 2 000 same; system 800 lost; turns 700 lost, 500 new; "
        "added context 300 lost"
    )
    assert title == "system: 800 tokens lost to a break"


async def test_names_below_the_bar_are_told_in_full_where_they_are_cut(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    titles = await tab.run(
        "[...document.querySelectorAll('[data-id=r3] .labels span')]"
        ".map((label) => label.title)"
    )

    assert titles[-1] == "added context 300 lost"
    assert len(titles) == 4


async def test_line_below_the_bar_is_what_the_provider_read(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    share = await tab.run(
        "(() => { const line = document.querySelector('[data-id=r4] .reading');"
        "return line.firstChild.getBoundingClientRect().width / line.clientWidth })()"
    )

    assert share == pytest.approx(3_800 / 6_280, abs=0.005)


async def test_the_sides_of_a_holdout_stand_among_the_totals(
    tab: Tab, served: Served
) -> None:
    usage = Usage(input_uncached=100, cache_read=300, output=50)
    served.feed(finished("r1", mode="shadow", group="held_out", usage=usage))
    served.feed(finished("r2", mode="compile", group="treated", usage=usage))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 2")

    totals = await text_of(tab, "#totals")
    assert "With context\n450 tokens / request" in totals
    assert "Held out\n450 tokens / request" in totals
    assert "held out" in await text_of(tab, "[data-id=r1] .route")


def worker(number: int, **changes: Any) -> dict[str, object]:
    told: dict[str, object] = {
        "worker": number,
        "process": 4_000 + number,
        "is_serving": True,
        "requests": 1_200 + number,
        "in_flight": 0,
        "failures": 0,
    }
    return told | changes


async def test_each_of_several_workers_is_told_with_its_numbers(
    tab: Tab, served: Served
) -> None:
    gone = worker(1, process=None, is_serving=False, in_flight=2, failures=1)
    served.feed.list_workers = lambda: [worker(0), gone]
    served.feed(finished("r1"))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 1")

    shown = await text_of(tab, "#workers")

    assert shown.splitlines() == [
        "Worker 0: 1 200 requests",
        "Worker 1: 1 201 requests, 2 in flight, 1 failure, not serving",
    ]
    bad = "[...document.querySelectorAll('#workers .bad')].map((w) => w.dataset.worker)"
    assert await tab.run(bad) == ["1"]

    served.feed.list_workers = lambda: [worker(0, requests=7), worker(1)]
    served.feed(finished("r2"))

    await tab.until("document.querySelector('#workers').innerText.includes(': 7 req')")
    assert tab.complaints == []


async def test_one_process_has_no_list_of_workers(tab: Tab, served: Served) -> None:
    await open_session(tab, served)

    assert await tab.run("document.querySelector('#workers').hidden") is True


KEPT = Prediction("kept", "extended", None, 240, 3_330, 3_240)


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        (
            KEPT,
            "Had context been added: the prefix would have stayed, 240 tokens added, "
            "3 240 read from the cache",
        ),
        (
            replace(KEPT, prefix="broken_by_client", cache_read_tokens=None),
            "Had context been added: the prefix is broken by the client, with context "
            "as without, 240 tokens added",
        ),
        (
            replace(
                KEPT,
                prefix="broken_by_sidecar",
                cause="record_forgotten",
                added_tokens=1,
            ),
            "Had context been added: the sidecar would have broken the prefix (record "
            "deleted on request), 1 token added, 3 240 read from the cache",
        ),
    ],
)
async def test_what_a_try_predicts_is_told_in_words(
    tab: Tab, served: Served, prediction: Prediction, words: str
) -> None:
    served.feed(finished("r1", mode="shadow", prediction=prediction))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 1")

    assert await text_of(tab, ".notes [data-note=prediction]") == words
