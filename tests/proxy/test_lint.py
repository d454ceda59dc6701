import json
from pathlib import Path

import pytest

from deuz_proxy.lint import Finding, guess_wire, lint_bodies, lint_file, summarize
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    chat_call,
    chat_result,
    user,
)

TURNS = [user("a" * 300), assistant("b" * 300), user("c" * 300)]


def findings(*bodies: bytes) -> list[Finding]:
    return list(lint_bodies(body + b"\n" for body in bodies))


def test_a_growing_conversation_has_no_findings_to_tell() -> None:
    first, second = findings(anthropic_body(TURNS[:1]), anthropic_body(TURNS))

    assert (first.verdict, second.verdict) == ("first", "extended")
    assert first.conversation == second.conversation == 1


def test_a_timestamp_in_the_system_prompt_is_found_with_its_byte() -> None:
    old = anthropic_body(TURNS[:1], system="It is 10:01. Help.")
    new = anthropic_body(TURNS, system="It is 10:02. Help.")

    (_, broken) = findings(old, new)

    assert (broken.segment, broken.cause, broken.owner) == (
        "system",
        "system_time",
        "client",
    )
    assert broken.offset == new.index(b"10:02") + 4
    assert 0 < broken.lost_tokens <= broken.total_tokens


def test_two_conversations_are_told_apart() -> None:
    found = findings(
        anthropic_body(TURNS[:1]),
        anthropic_body([user("other")]),
        anthropic_body(TURNS),
    )

    assert [f.conversation for f in found] == [1, 2, 1]


def test_a_line_that_is_no_body_is_told_and_skipped() -> None:
    bad, good = findings(b"{oops", anthropic_body(TURNS))

    assert bad == Finding(1, skipped="not_json")
    assert good.verdict == "first"


def test_blank_lines_are_passed_over_but_counted() -> None:
    (found,) = lint_bodies([b"\n", anthropic_body(TURNS)])

    assert found.line == 2


def test_a_gemini_conversation_whose_system_instruction_changes_is_broken() -> None:
    def body(system: str, *texts: str) -> bytes:
        turns = [{"role": "user", "parts": [{"text": text}]} for text in texts]
        lead = {"parts": [{"text": system}]}
        return json.dumps({"systemInstruction": lead, "contents": turns}).encode()

    found = list(lint_bodies([body("Be brief.", "a"), body("Be long.", "a", "b")]))

    assert [(f.wire, f.verdict, f.segment) for f in found] == [
        ("gemini", "first", None),
        ("gemini", "broken", "system"),
    ]


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        (anthropic_body(TURNS, system="s"), "anthropic"),
        (chat_body([{"role": "system", "content": "s"}, *TURNS]), "openai_chat"),
        (json.dumps({"messages": [{"role": "tool"}]}).encode(), "openai_chat"),
        (chat_body([*TURNS, chat_call("c"), chat_result("c", "r")]), "openai_chat"),
        (b'{"model":"m","input":"why?"}', "openai_responses"),
        (b'{"model":"m","tools":[{"type":"function"}],"input":[]}', "openai_responses"),
        (b'{"contents":[{"role":"user","parts":[{"text":"why?"}]}]}', "gemini"),
        (b'{"model":"m","messages":[],"contents":[]}', "anthropic"),
        (b"not json", "anthropic"),
    ],
)
def test_the_wire_of_a_capture_is_guessed(body: bytes, wire: str) -> None:
    assert guess_wire(body) == wire


def test_the_report_ends_with_the_sums(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    bodies = [
        anthropic_body(TURNS[:1]),
        anthropic_body(TURNS, tools=[{"name": "late"}]),
        b"[]",
    ]
    path.write_bytes(b"\n".join(bodies))

    lines: list[str] = []
    summary = lint_file(path, lines.append, is_json=False)

    assert (summary.requests, summary.skipped, summary.breaks) == (2, 1, 1)
    assert lines[0].startswith("line 2: conversation 1 broken at tools 0, byte ")
    assert "tool_added, owner client" in lines[0]
    assert lines[1] == "line 3: not understood (unknown_shape)"
    assert lines[2].startswith(
        "2 requests in 1 conversation, 1 skipped: 1 prefix break, "
    )


def test_a_system_prompt_that_is_gone_has_no_place_in_the_body(
    tmp_path: Path,
) -> None:
    path = tmp_path / "captured.jsonl"
    bodies = [anthropic_body(TURNS[:1], system="s" * 99), anthropic_body(TURNS)]
    path.write_bytes(b"\n".join(bodies))

    lines: list[str] = []
    lint_file(path, lines.append, is_json=False)
    first, _ = lines

    assert "broken at system: system_removed" in first


def test_machines_get_one_json_object_a_line(tmp_path: Path) -> None:
    path = tmp_path / "captured.jsonl"
    path.write_bytes(anthropic_body(TURNS))

    lines: list[str] = []
    lint_file(path, lines.append, is_json=True)
    (line,) = lines

    assert json.loads(line)["verdict"] == "first"
    assert "aaa" not in line


def test_an_empty_file_has_empty_sums() -> None:
    assert summarize([]).requests == 0
