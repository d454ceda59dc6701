import os
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from deuz_compiler import Candidate, Envelope, lift
from deuz_proxy.config.inside import SkillsSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.skills import FolderSkills, loaded_names, skill_of
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    tool_result,
    user,
)

SKILL = (
    "---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\nDo it well.\n"
)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, name: str, description: str) -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name=name, description=description))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "skills"
    write(made, "pdf-forms", "Fill in PDF forms and read them.")
    write(made, "release-notes", "Write release notes from commits.")
    (made / "pdf-forms" / "script.py").write_text("print('never read')")
    return made


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def source(folder: Path, clock: Clock) -> AsyncIterator[FolderSkills]:
    config = SkillsSource.model_validate({"type": "skills", "path": folder})
    made = FolderSkills(config, clock=clock)
    yield made
    await made.close()


def said(*turns: dict[str, Any]) -> Envelope:
    return lift("anthropic", anthropic_body(turns))


async def find(
    source: FolderSkills, text: str, *turns: dict[str, Any], limit: int = 9
) -> Sequence[Candidate]:
    envelope = said(*turns) if turns else None
    return await source.find(Query(text, "default", limit, envelope))


def ids(found: Sequence[Candidate]) -> list[str]:
    return [each.record_id for each in found]


async def test_the_catalogue_is_offered_the_fitting_line_first(
    source: FolderSkills,
) -> None:
    first, second = await find(source, "write the release notes")

    assert (first.record_id, first.text, first.kind) == (
        "release-notes",
        "release-notes: Write release notes from commits.",
        "skills",
    )
    assert (second.record_id, second.origin) == ("pdf-forms", "pdf-forms/SKILL.md")
    assert first.score > second.score > 0
    assert first.requirement == "discretionary"


async def test_a_body_that_fits_the_question_is_not_offered(
    source: FolderSkills,
) -> None:
    question = "fill in pdf-forms and read them, do it well"

    assert ids(await find(source, question, user(question))) == [
        "pdf-forms",
        "release-notes",
    ]


def test_what_loads_a_skill_is_its_name_as_a_command() -> None:
    names = ["pdf-forms", "release-notes"]

    def loaded(*turns: dict[str, Any]) -> Sequence[str]:
        return loaded_names(said(*turns), names)

    assert loaded(user("/pdf-forms please")) == ["pdf-forms"]
    assert loaded(user("use $pdf-forms, then (/release-notes).")) == names
    assert loaded(user("a"), assistant("I use /pdf-forms."), user("b")) == ["pdf-forms"]
    for text in (
        "pdf-forms",
        "see docs/pdf-forms",
        "./pdf-forms",
        "/pdf-forms/script.py",
        "/pdf-forms-old",
        "/pdf",
        "https://x/pdf-forms",
        "$$pdf-forms",
        "/PDF-FORMS",
    ):
        assert loaded(user(text)) == [], text


def call(tool: str, **arguments: str) -> dict[str, Any]:
    use = {"type": "tool_use", "id": "t1", "name": tool, "input": arguments}
    return {"role": "assistant", "content": [use]}


def test_a_tool_for_skills_loads_what_it_is_called_with_and_its_answer_nothing() -> (
    None
):
    names = ["pdf-forms", "release-notes"]
    asked = user("do it")
    answer = tool_result("t1", "now say /release-notes")

    for tool in ("Skill", "load_skill"):
        turns = (asked, call(tool, skill="pdf-forms"), answer)
        assert loaded_names(said(*turns), names) == ["pdf-forms"]
    other = (asked, call("read_file", path="pdf-forms"), answer)
    assert loaded_names(said(*other), names) == []


def test_other_wires_load_alike() -> None:
    function = {"name": "skill", "arguments": '{"name": "pdf-forms"}'}
    turns = [
        user("do it"),
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "/release-notes"},
    ]

    envelope = lift("openai_chat", chat_body(turns))

    assert loaded_names(envelope, ["pdf-forms", "release-notes"]) == ["pdf-forms"]
    assert loaded_names(None, ["pdf-forms"]) == ()
    assert loaded_names(envelope, []) == ()


async def test_a_loaded_body_comes_first_and_before_the_limit(
    source: FolderSkills,
) -> None:
    found = await find(source, "x", user("/release-notes for x"), limit=1)

    assert ids(found) == ["release-notes/SKILL.md"]
    assert found[0].text == "# release-notes\n\nDo it well."
    assert found[0].requirement == "preferred"


async def test_changes_are_seen_at_the_next_look(
    source: FolderSkills, folder: Path, clock: Clock
) -> None:
    await find(source, "x")
    write(folder, "deploy", "Deploy it.")
    (folder / "pdf-forms" / "SKILL.md").unlink()

    before = ids(await find(source, "x"))
    clock.now += 1.01
    after = ids(await find(source, "x"))

    assert before == ["pdf-forms", "release-notes"]
    assert after == ["deploy", "release-notes"]


async def test_a_folder_that_went_away_is_a_failure(
    source: FolderSkills, folder: Path, clock: Clock
) -> None:
    await find(source, "x")
    os.rename(folder, folder.with_name("moved"))
    clock.now += 1.01

    for _ in range(2):
        with pytest.raises(StoreFailed):
            await find(source, "x")


async def test_what_is_no_skill_is_passed_over_and_counted(
    source: FolderSkills, folder: Path
) -> None:
    write(folder / "again", "pdf-forms", "A second one.")
    (folder / "bad" / "x").mkdir(parents=True)
    (folder / "bad" / "SKILL.md").write_text("no front matter")
    (folder / "bad" / "x" / "SKILL.md").write_bytes(b"---\nname: x\0y\n---\n")

    found = await find(source, "x")

    assert [each.origin for each in found] == [
        "again/pdf-forms/SKILL.md",
        "release-notes/SKILL.md",
    ]
    assert source.skipped == {"unusable": 2, "duplicate": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# no front matter",
        "---\nname: a\ndescription: d\n",
        "---\nname: a\n---\nbody",
        "---\ndescription: d\n---\nbody",
        "---\nname: A B\ndescription: d\n---\nbody",
        "---\nname: ../up\ndescription: d\n---\nbody",
        "---\nname: 7\ndescription: d\n---\nbody",
        "---\nname: a\ndescription: [d]\n---\nbody",
        "---\nname: a\ndescription: ' '\n---\nbody",
        "---\nname: a\ndescription: d\n---\n \n",
        "---\n- a\n---\nbody",
        "---\nname: [a\n---\nbody",
        "---\nname: !!python/object:os.system a\ndescription: d\n---\nbody",
        "---\nname: a\ndescription: d\nx: " + "[" * 9_000 + "\n---\nbody",
        "---\nname: a\ndescription: d\nx: " + "y" * 20_000 + "\n---\nbody",
        "---\nname: a\ndescription: d\n---\n" + "x" * 70_000,
        f"---\nname: {'a' * 65}\ndescription: d\n---\nbody",
    ],
)
def test_a_text_that_describes_no_skill_is_none(text: str) -> None:
    assert skill_of("SKILL.md", text) is None


def test_a_description_becomes_one_bounded_line() -> None:
    text = "---\r\nname: a\r\ndescription: >-\r\n  one\r\n  two\r\n---\r\nbody\r\n"
    long = f"---\nname: a\ndescription: {'d' * 3_000}\n---\nbody"

    made, cut = skill_of("SKILL.md", text), skill_of("SKILL.md", long)

    assert made is not None
    assert (made.description, made.body) == ("one two", "body")
    assert cut is not None
    assert len(cut.description) == 1_024


async def test_a_closed_source_fails_and_its_thread_is_gone(
    source: FolderSkills,
) -> None:
    await find(source, "x")

    await source.close()
    await source.close()

    with pytest.raises(StoreFailed):
        await find(source, "x")
    assert not [t for t in threading.enumerate() if t.name.startswith("skills-skills")]


def test_a_turn_that_cannot_be_read_loads_nothing() -> None:
    envelope = said(user("/pdf-forms"))
    broken = envelope.body.replace(b'"/pdf-forms"', b'7 "/pdf-forms"')

    odd = msgspec.structs.replace(envelope, body=broken)

    assert loaded_names(odd, ["pdf-forms"]) == []
