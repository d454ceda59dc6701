import hashlib

from deuz_proxy.config.context import StaticRecord, StaticSource
from deuz_proxy.ports import Query
from deuz_proxy.sources.static import StaticRecords, text_digest


def records(*made: StaticRecord) -> StaticRecords:
    return StaticRecords(
        StaticSource(type="static", id="rules", required=True, records=made)
    )


def query(limit: int) -> Query:
    return Query(text="anything", scope="default", limit=limit)


async def found(source: StaticRecords, limit: int) -> list[str]:
    return [record.record_id for record in await source.find(query(limit))]


async def test_mandatory_records_come_first_and_beyond_the_limit() -> None:
    source = records(
        StaticRecord(id="a", text="x"),
        StaticRecord(id="z", text="y", mandatory=True),
        StaticRecord(id="b", text="z"),
    )

    assert await found(source, 2) == ["z", "a"]
    assert await found(source, 0) == ["z"]
    assert await found(source, 9) == ["z", "a", "b"]


async def test_others_go_by_score_then_by_id() -> None:
    source = records(
        StaticRecord.model_validate({"id": "a", "text": "x", "score": 0.2}),
        StaticRecord.model_validate({"id": "c", "text": "x", "score": 0.9}),
        StaticRecord.model_validate({"id": "b", "text": "x", "score": 0.9}),
    )

    assert await found(source, 9) == ["b", "c", "a"]


async def test_a_candidate_carries_what_the_config_says() -> None:
    source = records(
        StaticRecord(
            id="r1",
            text="Never give legal advice.",
            mandatory=True,
            priority=7,
            origin="handbook",
            source_kinds=("policy",),
        )
    )

    (candidate,) = await source.find(query(1))

    assert (source.id, source.kind, source.is_required) == ("rules", "memory", True)
    assert candidate.key == "rules/r1"
    assert candidate.kind == "memory"
    assert candidate.text == "Never give legal advice."
    assert candidate.is_mandatory
    assert (candidate.priority, candidate.score) == (7, 1.0)
    assert (candidate.origin, candidate.source_kinds) == ("handbook", ("policy",))
    assert candidate.digest == text_digest("Never give legal advice.")


async def test_a_revision_is_told_from_the_text_unless_it_is_given() -> None:
    source = records(
        StaticRecord(id="a", text="x", revision="v2"), StaticRecord(id="b", text="y")
    )

    first, second = await source.find(query(9))

    assert first.revision == "v2"
    assert second.revision == hashlib.sha256(b"y").hexdigest()[:12]


async def test_every_answer_is_the_same() -> None:
    source = records(StaticRecord(id="a", text="x"), StaticRecord(id="b", text="y"))

    first = await source.find(query(9))
    await source.close()
    await source.close()

    assert await source.find(query(9)) == first


def test_a_digest_is_sha256_of_the_text_in_utf8() -> None:
    assert text_digest("é") == f"sha256:{hashlib.sha256('é'.encode()).hexdigest()}"
