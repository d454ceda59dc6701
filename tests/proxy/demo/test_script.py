import json

from deuz_proxy.demo.script import STEPS, SYSTEM, TOOLS, WINDOW_TOKENS


def test_the_script_has_eight_turns_and_calls_every_tool() -> None:
    called = {step.tool for step in STEPS if step.tool}

    assert len(STEPS) >= 8
    assert called == {tool["name"] for tool in TOOLS}


def test_the_history_outgrows_the_window_once_and_not_at_once() -> None:
    lengths = [len(step.text + step.result + step.answer) for step in STEPS]
    head = len(SYSTEM) + len(json.dumps(TOOLS))

    # A token of the fake provider is about four bytes; framing and blocks come on top.
    assert head + sum(lengths[:6]) < 2 * WINDOW_TOKENS
    assert head + sum(lengths) > 3.5 * WINDOW_TOKENS


def test_one_turn_breaks_the_prefix_on_purpose_and_the_next_heals_it() -> None:
    (broken,) = [index for index, step in enumerate(STEPS) if step.system_note]

    assert "10:42:07" in STEPS[broken].system_note
    assert not STEPS[broken + 1].system_note


def test_what_is_remembered_is_forgotten_later_and_said_by_nobody() -> None:
    (remembered,) = [index for index, step in enumerate(STEPS) if step.remembers]
    (forgotten,) = [index for index, step in enumerate(STEPS) if step.forgets]
    said = "".join(step.text + step.result + step.answer for step in STEPS)

    assert remembered + 1 < forgotten < len(STEPS) - 1
    assert STEPS[remembered].remembers not in said
