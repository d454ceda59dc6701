"""Skills: folders with a `SKILL.md`, of which a conversation loads what it names.

Rules:
- Each skill's line, its name and what it is for, is a candidate; it can be found.
- A body is a candidate only where the conversation has loaded the skill: the user or
  the assistant wrote `/name` or `$name`, or the assistant called a tool for skills with
  the name as a value. That the question resembles a body loads nothing, and neither
  does what a tool answered: anybody may have written it.
- A skill without a usable name or description is passed over and counted.
- Nothing of a skill is run; other files of its folder are not read.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import msgspec
import yaml

from deuz_compiler import Candidate, Envelope, NotLifted, Part, read_parts
from deuz_proxy.config.inside import SkillsSource
from deuz_proxy.errors import StoreFailed
from deuz_proxy.ports import Query
from deuz_proxy.sources.folder import Found, NotText, list_folder, read_text
from deuz_proxy.sources.static import text_digest
from deuz_proxy.sources.words import words_of

_FILE = "SKILL.md"
_LOOK_SECONDS = 1.0
# As the format demands them.
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_MOST_DESCRIPTION = 1_024
_MOST_BODY_CHARACTERS = 65_536
_MOST_FRONT_CHARACTERS = 16_384
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)(.*)\Z", re.DOTALL)
_BARE_SCORE = 0.1

UNUSABLE: Final = "unusable"
DUPLICATE: Final = "duplicate"


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill; `place` is its file within the folder."""

    name: str
    description: str
    body: str
    place: str


class FolderSkills:
    """A `ports.Source` over a folder of skills. `clock` is monotonic."""

    def __init__(self, config: SkillsSource, *, clock: Callable[[], float]) -> None:
        self.id = config.id
        self.kind: str = config.kind
        self.is_required = config.required
        self.gives_mandatory = False
        self.skipped: Mapping[str, int] = {}
        self._folder = config.path
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"skills-{config.id}")
        self._skills: Mapping[str, Skill] = {}
        self._read: dict[str, tuple[Found, Skill | None]] = {}
        self._next_look = 0.0
        self._is_closed = False

    async def find(self, query: Query) -> Sequence[Candidate]:
        """Return the lines, the fitting first, and the bodies that are loaded.

        Raises:
            StoreFailed: the folder cannot be read.
        """
        if self._is_closed:
            raise StoreFailed(store=self.id, operation="find")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._find, query)
        except OSError as fault:
            raise StoreFailed(store=self.id, operation="find") from fault

    async def close(self) -> None:
        """Stop the thread. May be called twice."""
        self._is_closed = True
        await asyncio.to_thread(self._thread.shutdown, wait=True)

    def _find(self, query: Query) -> Sequence[Candidate]:
        self._refresh()
        named = loaded_names(query.envelope, self._skills)
        bodies = [self._body(self._skills[name]) for name in named]
        asked = frozenset(words_of(query.text))
        lines = [self._line(skill, asked) for skill in self._skills.values()]
        lines.sort(key=lambda line: (-line.score, line.record_id))
        return [*bodies, *lines][: query.limit]

    def _refresh(self) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        # Nothing old is served where looking fails.
        self._next_look = now
        read: dict[str, tuple[Found, Skill | None]] = {}
        for found in list_folder(self._folder).files:
            if PurePosixPath(found.name).name == _FILE:
                read[found.name] = self._known(found) or (found, _read(found))
        self._read = read
        self._skills = _by_name(skill for _, skill in read.values() if skill)
        named = sum(skill is not None for _, skill in read.values())
        counts = {UNUSABLE: len(read) - named, DUPLICATE: named - len(self._skills)}
        self.skipped = {reason: count for reason, count in counts.items() if count}
        self._next_look = self._clock() + _LOOK_SECONDS

    def _known(self, found: Found) -> tuple[Found, Skill | None] | None:
        held = self._read.get(found.name)
        return held if held is not None and held[0] == found else None

    def _line(self, skill: Skill, asked: frozenset[str]) -> Candidate:
        text = f"{skill.name}: {skill.description}"
        shared = len(asked & frozenset(words_of(text))) / (len(asked) or 1)
        score = _BARE_SCORE + (1 - _BARE_SCORE) * shared
        line = self._candidate(skill, skill.name, text)
        return msgspec.structs.replace(line, score=round(score, 9))

    def _body(self, skill: Skill) -> Candidate:
        body = self._candidate(skill, f"{skill.name}/{_FILE}", skill.body)
        return msgspec.structs.replace(body, score=1.0, requirement="preferred")

    def _candidate(self, skill: Skill, record_id: str, text: str) -> Candidate:
        digest = text_digest(text)
        return Candidate(
            source=self.id,
            kind=self.kind,
            record_id=record_id,
            text=text,
            revision=digest.removeprefix("sha256:")[:12],
            digest=digest,
            origin=skill.place,
        )


def loaded_names(envelope: Envelope | None, known: Iterable[str]) -> Sequence[str]:
    """Return the skills that the conversation has loaded, by name."""
    names = sorted(known)
    if envelope is None or not names:
        return ()
    loaded: dict[str, None] = {}
    for turn in envelope.turns:
        raw = envelope.body[turn.start : turn.end]
        here = [n for n in names if n not in loaded and n.encode() in raw]
        if here and turn.role in ("user", "assistant"):
            loaded.update(dict.fromkeys(_named(envelope.wire, raw, here)))
    return sorted(loaded)


def _named(wire: str, raw: bytes, names: Sequence[str]) -> Iterator[str]:
    try:
        parts = read_parts(wire, raw)
    except NotLifted:
        return
    for part in parts:
        yield from (name for name in names if _names(part, name))


def _names(part: Part, name: str) -> bool:
    if part.kind == "text":
        said = rf"(?<![\w./$-])[/$]{re.escape(name)}(?![\w/-])"
        return re.search(said, part.text) is not None
    is_call = part.kind == "tool_call" and "skill" in part.name.lower()
    return is_call and f'"{name}"' in part.text


def _by_name(skills: Iterable[Skill]) -> Mapping[str, Skill]:
    """Return the skills by name; of two of one name, the first by place."""
    found: dict[str, Skill] = {}
    for skill in sorted(skills, key=lambda each: each.place):
        found.setdefault(skill.name, skill)
    return found


def _read(found: Found) -> Skill | None:
    try:
        return skill_of(found.name, read_text(found))
    except NotText:
        return None


def skill_of(place: str, text: str) -> Skill | None:
    """Return the skill that the text of a `SKILL.md` describes; None if it is none."""
    whole = _FRONT.match(text.replace("\r\n", "\n"))
    members = _front_matter(whole[1]) if whole else {}
    name, description = members.get("name"), members.get("description")
    if whole is None or not isinstance(name, str) or not isinstance(description, str):
        return None
    short = " ".join(description.split())[:_MOST_DESCRIPTION]
    body = whole[2].strip()
    is_whole = bool(short) and 0 < len(body) <= _MOST_BODY_CHARACTERS
    return (
        Skill(name, short, body, place) if is_whole and _NAME.fullmatch(name) else None
    )


def _front_matter(text: str) -> Mapping[str, object]:
    if len(text) > _MOST_FRONT_CHARACTERS:
        return {}
    try:
        front = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return front if isinstance(front, dict) else {}
