from typing import Any

import pytest
from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from deuz_proxy.config.outside import Fields
from deuz_proxy.sources.answer import MOST_RECORDS, Record
from deuz_proxy.sources.mcp_results import records_of

ITEM = {"id": "a", "text": "x"}


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def read(
    structured: Any = None, *content: Any, member: str | None = None, **fields: str
) -> list[Record | None]:
    result = CallToolResult(content=list(content), structured_content=structured)
    return list(records_of(result, member=member, fields=Fields(**fields)))


def ids(records: list[Record | None]) -> list[str | None]:
    return [record.id if record else None for record in records]


@pytest.mark.parametrize(
    "structured", [[ITEM], {"results": [ITEM]}, {"result": [ITEM], "total": 1}]
)
def test_the_only_list_is_the_records(structured: Any) -> None:
    assert ids(read(structured)) == ["a"]


def test_a_member_that_is_named_is_the_records() -> None:
    assert ids(read({"hits": [ITEM], "facets": [1]}, member="hits")) == ["a"]


@pytest.mark.parametrize(
    ("structured", "member"),
    [({"a": [], "b": []}, None), ({"hits": 1}, "hits"), ({"a": []}, "b"), (7, "a")],
)
def test_which_list_is_meant_is_not_guessed(
    structured: Any, member: str | None
) -> None:
    with pytest.raises(ValueError, match="no list of records"):
        read(structured, member=member)


def test_members_are_found_by_their_configured_names() -> None:
    item = {"key": 7, "body": "x", "rank": 0.5, "rev": "2", "until": 9, "where": "w"}

    (record,) = read(
        [item],
        id="key",
        text="body",
        score="rank",
        revision="rev",
        expires_at="until",
        origin="where",
    )

    assert record == Record("7", "x", 0.5, "2", "", 9, "w")


def test_members_that_are_none_or_not_named_are_not_taken() -> None:
    (record,) = read([{**ITEM, "score": 0.5, "url": None}], score="")

    assert record == Record("a", "x")


def test_a_record_without_an_id_is_named_by_origin_or_text() -> None:
    named, digested = read([{"text": "x", "url": "w"}, {"text": "x"}])

    assert named is not None
    assert named.id == "w"
    assert digested is not None
    assert digested.id == "2d711642b726b044"


@pytest.mark.parametrize(
    "item",
    [
        None,
        3,
        [],
        {},
        {"id": "a"},
        {"text": 3},
        {**ITEM, "id": True},
        {"text": "\ud800"},
    ],
)
def test_what_is_no_record_is_none(item: Any) -> None:
    assert read([ITEM, item])[1] is None


def test_a_list_of_texts_is_a_list_of_records() -> None:
    assert [r and r.text for r in read(["one", "two"])] == ["one", "two"]


def test_a_lone_text_that_is_json_is_structured() -> None:
    assert ids(read(None, text('{"results": [{"id": "a", "text": "x"}]}'))) == ["a"]


@pytest.mark.parametrize(
    "words", ["{not json", "[" * 100_000, "plain", '{"a": 1}', "7"]
)
def test_any_other_text_is_one_record(words: str) -> None:
    (record,) = read(None, text(words))

    assert record is None or record.text == words


def test_texts_and_embedded_texts_are_records_and_pictures_are_not() -> None:
    embedded = EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="doc://a", text="inside")
    )
    blob = EmbeddedResource(
        type="resource", resource=BlobResourceContents(uri="doc://b", blob="AA==")
    )
    picture = ImageContent(type="image", data="AA==", mime_type="image/png")

    records = read(None, text("one"), picture, embedded, blob)

    assert [(r.text, r.origin) for r in records if r] == [
        ("one", ""),
        ("inside", "doc://a"),
    ]


def test_a_wrapped_text_is_read_from_the_texts() -> None:
    assert [r and r.text for r in read({"result": "one"}, text("one"))] == ["one"]


def test_no_more_than_a_bounded_number_is_looked_at() -> None:
    assert len(read([ITEM] * (MOST_RECORDS + 5))) == MOST_RECORDS
    assert len(read(None, *[text("x")] * (MOST_RECORDS + 5))) == MOST_RECORDS
