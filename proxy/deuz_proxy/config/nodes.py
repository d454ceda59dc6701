"""A YAML text as plain values, and the line on which each of them stands.

Rules:
- Every scalar stays text (or None); the model gives it its type, so that `id: 42`, `no`
  and a substituted `${PORT}` mean what their field wants them to mean.
- `${VAR}` and `${VAR:-default}` are replaced in values, never in keys; `$${` is `${`.
- A key whose value is null counts as not given.
- All mistakes are collected; a broken value is left out, so that it is told once.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

Place = tuple[str | int, ...]
Tree = str | None | list["Tree"] | dict[str, "Tree"]

# A config of 2048 records has some 20 000 values; beyond this it is an alias bomb.
_MOST_VALUES = 100_000
_DEEPEST = 32
_NULLS = ("", "~", "null", "Null", "NULL")
_REFERENCE = re.compile(
    r"(?P<escape>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|(?P<broken>\$\{)"
)
# In `{token: ${TOKEN:-}}` YAML takes the inner brace for its own. References are hidden
# from it, character by character (so that columns stay), in a plane nobody writes in.
_WRITTEN = re.compile(r"\$?\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}\"'\\\n]*)?\}")
_HIDE = {code: 0x10_0000 + code for code in range(128) if not chr(code).isalnum()}
_SHOW = {hidden: shown for shown, hidden in _HIDE.items()}
_PLAIN_TAGS = (
    "tag:yaml.org,2002:str",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:map",
)


class Mistake(NamedTuple):
    """One thing that is wrong: where it stands, on which line, and what it is."""

    place: Place
    line: int
    text: str
    column: int | None = None


@dataclass(slots=True)
class Document:
    """A text that was read: its values, their lines, and what was wrong with it."""

    tree: Tree = None
    lines: dict[Place, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)
    unusable: set[Place] = field(default_factory=set)
    """Places whose value was left out, since it is a mistake that is already told."""

    def line(self, place: Place) -> int:
        """Return the line of the value, or of the nearest thing around it."""
        for length in range(len(place), 0, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1

    def at(self, place: Place) -> Tree:
        """Return the value at the place, None where there is none."""
        here = self.tree
        for step in place:
            if isinstance(here, dict) and isinstance(step, str):
                here = here.get(step)
            elif isinstance(here, list) and isinstance(step, int) and step < len(here):
                here = here[step]
            else:
                return None
        return here

    def blame(self, place: Place, text: str) -> None:
        """Add a mistake at the place."""
        self.mistakes.append(Mistake(place, self.line(place), text))


class _Unusable(Exception):
    """The value has a mistake that is already told."""


class _TooMuch(Exception):
    """Reading on would cost more than any real config needs."""


def read_document(text: str, environ: Mapping[str, str]) -> Document:
    """Return the text's values; mistakes are inside, none is raised."""
    document = Document()
    try:
        hidden = _WRITTEN.sub(lambda match: match[0].translate(_HIDE), text)
        root = yaml.compose(hidden, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        document.mistakes.append(_syntax_mistake(error))
        return document
    except (yaml.YAMLError, RecursionError) as error:
        reason = getattr(error, "reason", None) or "nested too deeply"
        document.mistakes.append(
            Mistake((), _line_of(text, error), f"not YAML: {reason}")
        )
        return document
    if root is None:
        return document
    # What is not usable is already told.
    with suppress(_Unusable, _TooMuch):
        document.tree = _Walk(document, environ).value(root, ())
    return document


def _syntax_mistake(error: yaml.MarkedYAMLError) -> Mistake:
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, None)
    return Mistake((), line, f"not YAML: {problem}", column)


def _line_of(text: str, error: Exception) -> int:
    position = getattr(error, "position", 0)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else 1


@dataclass(slots=True)
class _Walk:
    """One pass over the nodes; owns the count that bounds it."""

    document: Document
    environ: Mapping[str, str]
    values: int = 0

    def value(self, node: yaml.Node, place: Place) -> Tree:
        """Return the node's value; its line is noted unless its key's line was."""
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        self._count(place)
        if node.tag not in _PLAIN_TAGS:
            # Only the tag's name: an unknown tag may hide anything in its value.
            self._refuse(place, "has a tag (allowed: plain values)")
        if isinstance(node, yaml.MappingNode):
            return dict(self._members(node, place))
        if isinstance(node, yaml.SequenceNode):
            return self._items(node, place)
        is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
        return self._scalar(str(node.value), place, is_plain=is_plain)

    def _count(self, place: Place) -> None:
        self.values += 1
        if self.values > _MOST_VALUES or len(place) > _DEEPEST:
            self.document.blame(place, "is too many values, or nested too deeply")
            raise _TooMuch

    def _members(
        self, node: yaml.MappingNode, place: Place
    ) -> Iterator[tuple[str, Tree]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self.document.mistakes.append(
                    Mistake(place, line, "has a key that is not a word")
                )
                continue
            key = str(key_node.value).translate(_SHOW)
            inner = (*place, key)
            if key in seen:
                self.document.mistakes.append(
                    Mistake(inner, line, f"is given twice, first on line {seen[key]}")
                )
                continue
            seen[key] = line
            self.document.lines[inner] = line
            try:
                value = self.value(value_node, inner)
            except _Unusable:
                continue
            if value is not None:
                yield key, value

    def _items(self, node: yaml.SequenceNode, place: Place) -> list[Tree]:
        items: list[Tree] = []
        for index, item in enumerate(node.value):
            try:
                items.append(self.value(item, (*place, index)))
            except _Unusable:
                # The place is kept, so that later items keep their index.
                items.append(None)
        return items

    def _scalar(self, written: str, place: Place, *, is_plain: bool) -> str | None:
        text = written.translate(_SHOW)
        if "${" in text:
            text = self._substitute(text, place)
        return None if is_plain and text in _NULLS else text

    def _substitute(self, text: str, place: Place) -> str:
        faults: list[str] = []

        def replace(match: re.Match[str]) -> str:
            if match["escape"]:
                return "${"
            if match["broken"]:
                faults.append(
                    "has a broken reference (allowed: ${VAR}, ${VAR:-default}, $${)"
                )
                return ""
            # As in a shell: the default stands in for an empty variable too.
            value = self.environ.get(match["name"], "")
            if match["default"] is not None:
                return value or match["default"]
            if match["name"] not in self.environ:
                faults.append(f"needs the environment variable {match['name']}")
            return value

        replaced = _REFERENCE.sub(replace, text)
        for fault in faults[:-1]:
            self.document.blame(place, fault)
        if faults:
            self._refuse(place, faults[-1])
        return replaced

    def _refuse(self, place: Place, text: str) -> None:
        self.document.blame(place, text)
        self.document.unusable.add(place)
        raise _Unusable
