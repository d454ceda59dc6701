"""What a search tool of the Model Context Protocol answered, as records.

Rules:
- Structured content comes first; a lone text that is JSON counts as such. Otherwise
  each text and each embedded text resource is a record.
- Pictures, sound and links are passed over: a record is text.
- A record without an id is named by its origin, or by its text's digest.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mcp.types import (
    CallToolResult,
    EmbeddedResource,
    TextContent,
    TextResourceContents,
)

from deuz_proxy.config.outside import Fields
from deuz_proxy.sources.answer import MOST_RECORDS, Record, checked_record
from deuz_proxy.sources.static import text_digest

_ID_DIGITS = 16


def records_of(
    result: CallToolResult, *, member: str | None, fields: Fields
) -> Sequence[Record | None]:
    """Return the result's records; None stands for one that is not well-formed.

    Raises:
        ValueError: the structured content has not the one list of records.
    """
    content = result.structured_content
    items = _items(_lone_json(result) if content is None else content, member)
    if items is None:
        return list(_texts(result))[:MOST_RECORDS]
    return [_record(item, fields) for item in items[:MOST_RECORDS]]


def _lone_json(result: CallToolResult) -> Any:
    texts = [each.text for each in result.content if isinstance(each, TextContent)]
    if len(texts) != 1 or not texts[0].lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(texts[0])
    except (ValueError, RecursionError):
        return None


def _items(content: Any, member: str | None) -> list[Any] | None:
    """Return the list of records; None where the texts are all there is."""
    if isinstance(content, list):
        return content
    members = content if isinstance(content, Mapping) else {}
    names = members if member is None else [member]
    lists = [members[n] for n in names if isinstance(members.get(n), list)]
    # A tool that answers with one text: many libraries wrap it in an object.
    if not lists and member is None:
        return None
    if len(lists) != 1:
        raise ValueError("no list of records, or more than one")
    return list(lists[0])


def _record(item: Any, fields: Fields) -> Record | None:
    if isinstance(item, str):
        return _named(item, {})
    if not isinstance(item, Mapping):
        return None
    names = fields.model_dump()
    members = {
        ours: item[theirs]
        for ours, theirs in names.items()
        if theirs and item.get(theirs) is not None
    }
    text = members.pop("text", None)
    # Databases number their rows.
    if type(members.get("id")) is int:
        members["id"] = str(members["id"])
    return _named(text, members) if isinstance(text, str) else None


def _texts(result: CallToolResult) -> Iterator[Record | None]:
    for block in result.content:
        if isinstance(block, TextContent):
            yield _named(block.text, {})
        elif isinstance(block, EmbeddedResource):
            yield from _embedded(block)


def _embedded(block: EmbeddedResource) -> Iterable[Record | None]:
    if isinstance(block.resource, TextResourceContents):
        yield _named(block.resource.text, {"origin": str(block.resource.uri)})


def _named(text: str, members: Mapping[str, Any]) -> Record | None:
    name = members.get("id") or members.get("origin")
    if not name:
        try:
            name = text_digest(text).removeprefix("sha256:")[:_ID_DIGITS]
        except UnicodeEncodeError:
            return None
    return checked_record(**{**members, "id": name, "text": text})
