import pytest

from deuz_proxy.demo.show import describe, run_demo


async def test_the_demo_tells_its_whole_story_and_ends_well() -> None:
    told: list[str] = []

    code = await run_demo(tell=told.append, is_once=True)

    text = "\n".join(told)
    assert code == 0
    assert text.count("\nturn ") >= 8
    assert "placed behind turn 0: rules/tone, notes/payments.md#retry-policy" in text
    assert "prefix extended; read" in text
    assert "broken at system" in text
    assert "system_time, owner client" in text
    assert "prefix returned" in text
    assert "overflow recovered" in text
    assert "summarize:" in text
    assert "/metrics" in text


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({}, "prefix unknown; read 0 from the cache, wrote 0, 0 uncached"),
        (
            {"verdict": {"verdict": "first"}, "usage": {"input_uncached": 7}},
            "prefix first; read 0 from the cache, wrote 0, 7 uncached",
        ),
    ],
)
def test_a_request_is_described_by_what_was_reported(
    told: dict[str, object], line: str
) -> None:
    assert describe(told) == [line]
