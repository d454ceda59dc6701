import socket

from deuz_proxy.demo.script import FACT
from deuz_proxy.demo.show import _are_free, run_demo
from deuz_proxy.demo.words import LEGEND
from deuz_testing.ports import free_port


async def test_the_demo_tells_its_whole_story_and_ends_well() -> None:
    told: list[str] = []

    code = await run_demo(tell=told.append, is_once=True)

    text = "\n".join(told)
    assert code == 0
    assert text.count("\nquestion ") >= 8
    assert (
        "placed behind this question: rules/tone, notes/payments.md#retry-policy"
        in text
    )
    assert "left out: rules/tone (already placed)" in text
    assert "prefix extended; read" in text
    assert "broken at system" in text
    assert "system_time, owner client" in text
    assert "prefix returned" in text
    assert "somebody remembers a record: PUT /api/v1/memory/default/" in text
    assert f"placed behind this question: memory/{FACT}\n" in text
    assert "taken out of 1 block)" in text
    assert "record_forgotten, owner sidecar" in text
    assert "0 changes of the prefix by the sidecar unasked" in text
    assert "overflow recovered" in text
    assert "summarize:" in text
    assert text.endswith(LEGEND)


async def test_the_demo_tells_the_same_story_every_time() -> None:
    stories: list[list[str]] = [[], []]

    for story in stories:
        await run_demo(tell=story.append, is_once=True)

    assert stories[0] == stories[1]


def test_ports_are_free_only_if_nobody_listens_at_any_of_them() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert not _are_free([0, port])

    assert _are_free([0, port])
