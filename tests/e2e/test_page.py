"""The live page in a real browser, served by the real admin application."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from deuz_compiler import SegmentShare, Usage, Verdict
from deuz_proxy.observe.events import FaultCaught, Placement
from deuz_proxy.sinks.feed import Feed
from deuz_testing.browser import Tab
from deuz_testing.feed_events import (
    agent_session,
    broken,
    compiled,
    finished,
    line,
    shares,
    started,
)
from deuz_testing.served_page import ROWS, Served, open_session, text_of

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium")]

HOSTILE = "<img src=x onerror=window.hacked=1></script><script>hacked=1</script>\"'&"


@pytest.fixture
async def locked() -> AsyncIterator[Served]:
    served = Served(Feed(generation="g1"), token="open sesame")
    for event in agent_session():
        served.feed(event)
    await served.start()
    yield served
    await served.stop()


async def shown_ids(tab: Tab) -> list[str]:
    ids: list[str] = await tab.run(f"[...{ROWS}].map((row) => row.dataset.id)")
    return ids


async def test_page_without_requests_tells_how_to_send_one(
    tab: Tab, served: Served
) -> None:
    await tab.open(served.url)
    await tab.until("!document.getElementById('empty').hidden")

    shown = await text_of(tab, "#commands")

    assert "export OPENAI_BASE_URL=http://127.0.0.1:5151/v1" in shown
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:5151" in shown


async def test_command_is_copied(tab: Tab, served: Served) -> None:
    await tab.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
        origin=served.url,
    )
    await tab.open(served.url)
    await tab.until("document.querySelector('#commands button')")

    await tab.run("document.querySelector('#commands button').click()")

    await tab.until(
        "document.querySelector('#commands button').textContent === 'Copied'"
    )
    copied = await tab.run("navigator.clipboard.readText()")
    assert copied == "export OPENAI_BASE_URL=http://127.0.0.1:5151/v1"


async def test_command_that_cannot_be_copied_is_selected(
    tab: Tab, served: Served
) -> None:
    for setting in ({}, {"allowWithoutSanitization": True}):
        await tab.call(
            "Browser.setPermission",
            permission={"name": "clipboard-write", **setting},
            setting="denied",
            origin=served.url,
        )
    await tab.open(served.url)
    await tab.until("document.querySelector('#commands button')")

    await tab.run("document.querySelector('#commands button').click()")

    await tab.until(
        "getSelection().toString() === 'export OPENAI_BASE_URL=http://127.0.0.1:5151/v1'"
    )


async def test_requests_are_shown_newest_first_with_their_verdict_in_words(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    assert await shown_ids(tab) == ["r8", "r7", "r6", "r5", "r4", "r3", "r2", "r1"]
    assert await text_of(tab, "[data-id=r3] .sentence") == (
        "Broken at system, byte 412: timestamp in system prompt — the client — "
        "1 800 tokens re-read · the provider did not read 1 800 of 3 800 expected from "
        "its cache"
    )
    assert await text_of(tab, "[data-id=r5] .sentence") == (
        "Prefix extended, but its cache was lost: expired between the requests — time "
        "— 6 200 tokens re-read"
    )
    assert tab.complaints == []


async def test_conversation_shows_its_verdict_hit_ratio_and_loss(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    entry = "#conversations [data-id=c1]"
    shown = await text_of(tab, entry)

    assert "claude-sonnet-4-5" in shown
    assert await text_of(tab, f"{entry} .chip") == "extended"
    assert await text_of(tab, f"{entry} .hit") == "36 %"
    assert await text_of(tab, f"{entry} .lost-tokens") == "14 120"
    assert "timestamp in system prompt (client), 1 800 lost" in shown
    assert "2 records placed, 300 tokens" in shown


async def test_request_appears_live_without_a_reload(tab: Tab, served: Served) -> None:
    await open_session(tab, served)
    await tab.run("window.untouched = true")

    served.feed(started("r9"))
    await tab.until(
        "document.querySelector('#totals').innerText.includes('flight\\n1')"
    )
    served.feed(finished("r9", conversation="c9", verdict=broken()))
    served.feed(FaultCaught("/v1/messages", "recall", "store_failed"))

    await tab.until(f"{ROWS}[0].dataset.id === 'r9'")
    await tab.until(
        "document.querySelector('#totals').innerText.includes('Faults\\n1')"
    )
    assert await tab.run("window.untouched")
    assert await tab.run("document.querySelector('#conversations li').dataset.id") == (
        "c9"
    )
    assert len(await shown_ids(tab)) == 9


async def test_open_details_stay_open_while_requests_come_in(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)
    await tab.run("document.querySelector('[data-id=r2] summary').click()")
    await tab.until("document.querySelector('[data-id=r2] caption')")

    served.feed(finished("r9"))
    await tab.until(f"{ROWS}.length === 9")

    assert await tab.run("document.querySelector('[data-id=r2] details').open")


async def test_details_are_opened_by_keyboard_and_tell_every_candidate_s_reason(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)
    await tab.run("document.querySelector('[data-id=r2] summary').focus()")

    await tab.press("Enter")

    await tab.until("document.querySelector('[data-id=r2] caption')")
    shown = await text_of(tab, "[data-id=r2] .room")
    assert "r-units\trules (memory)\t240\tselected: mandatory" in shown
    assert "guide.md#9\tdocs (rag)\t240\texcluded: over budget" in shown
    assert "admit\t210 µs" in shown
    assert "0" * 29 + "abc" in shown


async def test_conversation_is_chosen_by_keyboard_and_filters_the_requests(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)
    await tab.run(
        "document.querySelector('#conversations [data-id=c2] button').focus()"
    )

    await tab.press("Enter")

    assert await shown_ids(tab) == ["r7"]
    focused = await tab.run("document.activeElement.getAttribute('aria-pressed')")
    assert focused == "true"
    await tab.run("document.getElementById('all').click()")
    assert len(await shown_ids(tab)) == 8


async def test_losses_can_be_shown_alone(tab: Tab, served: Served) -> None:
    await open_session(tab, served)

    await tab.run("document.getElementById('losses-only').click()")

    assert await shown_ids(tab) == ["r5", "r4", "r3"]


async def test_hostile_names_are_shown_as_text_and_never_run(
    tab: Tab, served: Served
) -> None:
    served.feed(
        finished(
            HOSTILE,
            model=HOSTILE,
            conversation=HOSTILE,
            route=HOSTILE,
            upstream=HOSTILE,
            response_model=HOSTILE,
            verdict=Verdict(HOSTILE, HOSTILE, HOSTILE, HOSTILE, lost_tokens=5),
            segments=(SegmentShare(HOSTILE, 10, 20, 30),),
            placements=(Placement(1, (HOSTILE,), 5, is_new=True, form=HOSTILE),),
            compile=compiled(
                fallback=HOSTILE,
                records=(
                    line(HOSTILE, HOSTILE, HOSTILE, is_selected=True, reason=HOSTILE),
                ),
            ),
            passthrough=HOSTILE,
            stages=(HOSTILE,),
            stage_seconds=(0.1,),
        )
    )
    served.feed(FaultCaught(HOSTILE, HOSTILE, HOSTILE))
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 1")

    await tab.run("document.querySelector('summary').click()")
    await tab.until("document.querySelector('caption')")

    assert HOSTILE in await text_of(tab, ".request .model")
    assert HOSTILE in await text_of(tab, ".room")
    assert await tab.run("typeof hacked") == "undefined"
    assert await tab.run("document.querySelectorAll('img, body script').length") == 0
    assert tab.complaints == []


async def test_page_says_when_it_is_disconnected_and_catches_up_afterwards(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)
    state = "document.getElementById('connection').dataset.state"
    await tab.until(f"{state} === 'live'")

    await served.stop()
    await tab.until(f"{state} === 'disconnected'")
    served.feed(finished("r9"))
    await served.start()

    await tab.until(f"{state} === 'live'")
    await tab.until(f"{ROWS}[0].dataset.id === 'r9'")
    assert len(await shown_ids(tab)) == 9


async def test_page_starts_afresh_with_another_process_behind_the_address(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    await served.stop()
    served.feed = Feed(generation="g2")
    served.feed(finished("x1"))
    await served.start()

    await tab.until(f"{ROWS}.length === 1 && {ROWS}[0].dataset.id === 'x1'")


async def test_form_asks_for_the_token_until_it_is_right(
    tab: Tab, locked: Served
) -> None:
    await tab.open(locked.url)
    await tab.until("!document.getElementById('login').hidden")

    submit = (
        "document.getElementById('token').value = {!r};"
        "document.querySelector('#login button').click()"
    )
    await tab.run(submit.format("wrong"))
    await tab.until("document.getElementById('login-error').textContent")
    assert await text_of(tab, "#login-error") == "This is not the token."
    await tab.run(submit.format("open sesame"))

    await tab.until(f"{ROWS}.length === 8")
    locked.feed(finished("r9"))
    await tab.until(f"{ROWS}.length === 9")
    assert await tab.run("document.getElementById('login').hidden")


@pytest.mark.parametrize("fragment", ["#token=open%20sesame", "#?token=open%20sesame"])
async def test_token_in_the_fragment_opens_the_page_and_leaves_the_address(
    tab: Tab, locked: Served, fragment: str
) -> None:
    await tab.open(locked.url + fragment)
    await tab.until(f"{ROWS}.length === 8")

    assert await tab.run("location.href") == locked.url
    assert await tab.run("localStorage.length + document.cookie.length") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
async def test_page_fits_its_width_in_both_schemes(
    tab: Tab, served: Served, root: Path, width: int, scheme: str
) -> None:
    await tab.show(width=width, scheme=scheme)
    served.feed(finished("r0", model="m" * 250, segments=shares((0, 0, 9_000))))
    await open_many(tab, served)
    await tab.run("document.querySelector('[data-id=r2] summary').click()")
    await tab.until("document.querySelector('[data-id=r2] caption')")
    await tab.photograph(root / f"artifacts/page-{width}-{scheme}.png")

    assert await tab.run("document.documentElement.scrollWidth") == width
    ground = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(246, 247, 248)" if scheme == "light" else "rgb(18, 23, 28)")


async def open_many(tab: Tab, served: Served) -> None:
    """Open the page on the sample session and three other conversations."""
    for number, event in enumerate(agent_session()):
        served.feed(event)
        if number % 3 == 0:
            usage = Usage(input_uncached=90, cache_read=800 * number, output=40)
            served.feed(
                replace(
                    event,
                    request_id=f"s{number}",
                    conversation=f"conversation-{number}",
                    usage=usage,
                )
            )
    await tab.open(served.url)
    await tab.until(f"{ROWS}.length === 12")


async def test_a_source_that_fails_is_named_among_the_totals(
    tab: Tab, served: Served
) -> None:
    await open_session(tab, served)

    totals = await text_of(tab, "#totals")

    assert "Sources failing\nrules" in totals
