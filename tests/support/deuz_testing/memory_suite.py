"""What every memory store promises, as tests that each runs against itself.

Rules:
- A store's test file subclasses `MemorySuite` and gives the fixture `memory`.
- The suite speaks through the ports only; what is special to a store stands beside it.
"""

import asyncio
from typing import Protocol

import pytest

from deuz_proxy.memory.records import Draft, Notes, Records

NOW = 1_000.0
HOSTILE = (
    "",
    '"',
    "'; DROP TABLE records; --",
    "scope : x OR body : y",
    "a AND NOT b NEAR(c d, 2) ^e* {f g} : h",
    "*",
    "(((",
    "a\x00green",
    "\ud800\udfff\ud800",
    "%s %d {0} $1 ?1 :scope",
    "😀" * 1000,
    "_gre _",
    "x" * 1_000_000,
    "green " * 170_000,
    "é" * 2_000_000,
    "'green' | !x & y:* <-> z",
    "\\",
)

FINDABLE = (
    ("The colour of the team is teal.", "which COLOURS"),
    ("Die Rechnungen gehen an das Büro in München.", "MUNCHEN buro rechnung"),
    ("Der Benutzer mag keine Zwiebeln.", "zwiebel"),
    ("База данных находится в Хельсинки.", "где базы данных"),
    ("Користувач любить каву.", "кава"),
    ("Ο χρήστης προτιμά σύντομες απαντήσεις.", "απαντηση"),
    ("用户喜欢简短的回答，数据库部署在上海。", "数据库在哪里"),
    ("项目由王经理批准。", "王"),
    ("ユーザーは東京に住んでいて、毎朝コーヒーを飲みます。", "東京"),
    ("사용자는 서울에 살고 있습니다.", "사용자가"),
    ("ผู้ใช้ชอบดื่มกาแฟทุกเช้า", "กาแฟ"),
    ("المستخدم يفضل الاجتماعات في الصباح", "اجتماع"),
    ("उपयोगकर्ता दिल्ली में रहता है", "दिल्ली"),
    ("Kullanıcı toplantıları sabah tercih ediyor.", "toplantı"),
    ("המשתמש מעדיף תשובות קצרות", "תשובה"),
    ("𞤀𞤣𞤤𞤢𞤥 𞤆𞤵𞤤𞤢𞤪", "𞤆𞤵𞤤𞤢𞤪"),
    ("getUserByEmail raises UserNotFoundError", "user not found"),
    ("Set HTTP_PROXY_TIMEOUT=30", "proxy timeout"),
    ("Người dùng thích cà phê", "ca phe"),
)


class Memory(Records, Notes, Protocol):
    """A whole memory store."""

    async def trim(self, scope: str, *, most_in_scope: int, most: int) -> int:
        """Remove the oldest records over the bounds; return how many."""


async def found(memory: Memory, text: str, scope: str = "acme") -> list[str]:
    """Return the ids that answer, best first."""
    hits = await memory.search(scope, text, limit=5, now=NOW)
    return [hit.record.id for hit in hits]


class MemorySuite:
    """The contract of `memory.records.Records` and `Notes`."""

    async def test_what_was_put_is_there_as_it_was(self, memory: Memory) -> None:
        draft = Draft("r/1 語", "Ä 😀\r\n", True, 2_000.5, "crm", ("chat", "mail"))

        record = await memory.put("acme", draft, now=NOW)

        assert (record.draft, record.revision) == (draft, 1)
        assert record.digest.startswith("sha256:")
        assert await memory.get("acme", "r/1 語", now=NOW) == record
        assert await memory.mandatory("acme", now=NOW) == (record,)

    async def test_an_equal_text_keeps_its_revision_and_a_changed_one_raises_it(
        self, memory: Memory
    ) -> None:
        texts = ["green", "green", "blue", "green"]

        records = [await memory.put("acme", Draft("r", t), now=NOW) for t in texts]

        assert [record.revision for record in records] == [1, 1, 2, 3]
        assert records[0].digest == records[3].digest != records[2].digest
        assert await found(memory, "blue") == []
        assert await found(memory, "green") == ["r"]

    async def test_what_is_said_of_an_equal_text_may_change(
        self, memory: Memory
    ) -> None:
        await memory.put("acme", Draft("r", "green", mandatory=True), now=NOW)
        await memory.put("acme", Draft("r", "green", origin="crm"), now=NOW)

        assert await memory.mandatory("acme", now=NOW) == ()
        record = await memory.get("acme", "r", now=NOW)
        assert record is not None
        assert (record.draft.origin, record.revision) == ("crm", 1)

    async def test_what_has_expired_is_there_for_no_method(
        self, memory: Memory
    ) -> None:
        draft = Draft("r", "green", mandatory=True, expires_at=NOW)
        await memory.put("acme", draft, now=NOW - 1)

        assert await memory.get("acme", "r", now=NOW) is None
        assert await memory.page("acme", after="", limit=9, now=NOW) == ()
        assert await memory.mandatory("acme", now=NOW) == ()
        assert await found(memory, "green") == []
        assert await memory.get("acme", "r", now=NOW - 1) is not None

    async def test_an_expired_record_is_put_anew(self, memory: Memory) -> None:
        await memory.put("acme", Draft("r", "green", expires_at=NOW), now=1.0)

        await memory.put("acme", Draft("r", "blue"), now=NOW)

        assert await found(memory, "blue") == ["r"]
        assert await found(memory, "green") == []

    @pytest.mark.parametrize("other", ["acme/x", "acm", "ACME", "other", "acme/x.y"])
    async def test_no_scope_sees_anothers_records(
        self, memory: Memory, other: str
    ) -> None:
        await memory.put("acme", Draft("r", "green", mandatory=True), now=NOW)
        await memory.put(other, Draft("s", "green too", mandatory=True), now=NOW)

        for scope, mine, theirs in (("acme", "r", "s"), (other, "s", "r")):
            assert await found(memory, "green", scope) == [mine]
            assert await memory.get(scope, theirs, now=NOW) is None
            listed = await memory.page(scope, after="", limit=9, now=NOW)
            pinned = await memory.mandatory(scope, now=NOW)
            assert [record.id for record in (*listed, *pinned)] == [mine, mine]
            assert await memory.drop(scope, [theirs], now=NOW) == 0

    async def test_equal_ids_of_two_scopes_are_two_records(
        self, memory: Memory
    ) -> None:
        await memory.put("a", Draft("r", "green"), now=NOW)
        await memory.put("b", Draft("r", "blue"), now=NOW)

        assert await memory.drop("a", ["r"], now=NOW) == 1
        assert await found(memory, "blue", "b") == ["r"]

    async def test_pages_follow_each_other_by_id(self, memory: Memory) -> None:
        ids = ["b", "a", "B", "ä", "10", "9", "a/b", "語"]
        for record_id in ids:
            await memory.put("acme", Draft(record_id, "x"), now=NOW)

        listed: list[str] = []
        while page := await memory.page(
            "acme", after=listed[-1] if listed else "", limit=3, now=NOW
        ):
            listed += [record.id for record in page]

        assert listed == sorted(ids)

    async def test_dropping_counts_what_was_there(self, memory: Memory) -> None:
        for record_id in "abc":
            await memory.put("acme", Draft(record_id, f"green {record_id}"), now=NOW)

        assert await memory.drop("acme", ["a", "b", "a", "z"], now=NOW) == 2
        assert await memory.drop("acme", ["a"], now=NOW) == 0
        assert await memory.drop("acme", [], now=NOW) == 0
        assert await found(memory, "green") == ["c"]

    async def test_what_was_dropped_is_known_for_a_while(self, memory: Memory) -> None:
        await memory.drop("acme", ["a", "b"], now=NOW)

        assert await memory.dropped("acme", ["a", "z", "b"], since=NOW) == ("a", "b")
        assert await memory.dropped("acme", ["a"], since=NOW + 1) == ()
        assert await memory.dropped("acme/x", ["a"], since=NOW) == ()
        await memory.drop("acme", ["b"], now=NOW + 3_601)
        assert await memory.dropped("acme", ["a", "b"], since=0) == ("b",)

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    async def test_no_question_fails(self, memory: Memory, text: str) -> None:
        await memory.put("acme", Draft("r", "green"), now=NOW)

        assert await found(memory, text) in ([], ["r"])

    @pytest.mark.parametrize(("text", "question"), FINDABLE)
    async def test_any_language_is_found(
        self, memory: Memory, text: str, question: str
    ) -> None:
        for number, (other, _) in enumerate(FINDABLE):
            await memory.put("acme", Draft(f"r{number}", other), now=NOW)

        best = (await memory.search("acme", question, limit=1, now=NOW))[0]

        assert best.record.draft.text == text
        assert 0.15 < best.score <= 1

    async def test_at_most_so_many_are_found_the_best_first(
        self, memory: Memory
    ) -> None:
        await memory.put("acme", Draft("a", "green tea"), now=NOW)
        await memory.put("acme", Draft("b", "green tea from Uji, hot"), now=NOW)
        await memory.put("acme", Draft("c", "green"), now=NOW)

        hits = await memory.search("acme", "hot green tea", limit=2, now=NOW)

        assert [hit.record.id for hit in hits] == ["b", "a"]
        assert hits[0].score > hits[1].score
        assert await memory.search("acme", "green", limit=0, now=NOW) == ()

    async def test_notes_are_swapped_only_for_what_they_are(
        self, memory: Memory
    ) -> None:
        assert await memory.load("acme", "k") is None
        assert not await memory.has_any()
        assert await memory.swap("acme", "k", old=None, new=b"one")
        assert not await memory.swap("acme", "k", old=None, new=b"two")
        assert not await memory.swap("acme", "k", old=b"zero", new=b"two")
        assert await memory.swap("acme", "k", old=b"one", new=b"two")
        assert await memory.load("acme", "k") == b"two"
        assert await memory.has_any()
        assert await memory.load("acme/x", "k") is None
        assert await memory.swap("acme", "k", old=b"two", new=None)
        assert await memory.load("acme", "k") is None

    async def test_many_at_once_do_not_mix_scopes(self, memory: Memory) -> None:
        scopes = [f"t{number}" for number in range(8)]

        async def work(scope: str) -> None:
            for number in range(6):
                draft = Draft(f"{scope}-{number}", f"green {scope} {number}")
                await memory.put(scope, draft, now=NOW)
                hits = await memory.search(scope, "green t", limit=50, now=NOW)
                assert len(hits) == number + 1
                assert all(hit.record.id.startswith(f"{scope}-") for hit in hits)

        async with asyncio.TaskGroup() as group:
            for scope in scopes:
                group.create_task(work(scope))

    async def test_of_racing_swaps_one_wins(self, memory: Memory) -> None:
        won = await asyncio.gather(
            *[
                memory.swap("acme", "k", old=None, new=f"{number}".encode())
                for number in range(8)
            ]
        )

        assert won.count(True) == 1

    async def test_the_oldest_records_over_the_bounds_are_removed(
        self, memory: Memory
    ) -> None:
        for number in range(4):
            for scope in ("a", "b"):
                await memory.put(scope, Draft(f"r{number}", "green"), now=1.0)

        in_scope = await memory.trim("a", most_in_scope=3, most=99)
        in_all = await memory.trim("b", most_in_scope=99, most=5)

        kept = {
            scope: [r.id for r in await memory.page(scope, after="", limit=9, now=1.0)]
            for scope in ("a", "b")
        }
        assert (in_scope, in_all) == (1, 2)
        assert kept == {"a": ["r2", "r3"], "b": ["r1", "r2", "r3"]}
        assert await memory.trim("a", most_in_scope=2, most=5) == 0

    async def test_what_other_scopes_hold_weighs_nothing(self, memory: Memory) -> None:
        texts = {
            "a": "green tea in the morning",
            "b": "green and black tea",
            "c": "a green door",
            "d": "the morning train",
        }
        for record_id, text in texts.items():
            await memory.put("acme", Draft(record_id, text), now=NOW)

        async def hits() -> list[tuple[str, float]]:
            asked = "green tea of a rare morning"
            found = await memory.search("acme", asked, limit=9, now=NOW)
            return [(hit.record.id, hit.score) for hit in found]

        before = await hits()
        for number in range(30):
            # Were they counted, `tea` would be common and `rare` would be known.
            text = "tea, tea, tea, and nothing so rare"
            await memory.put("acme/ben", Draft(f"r{number}", text), now=NOW)

        assert len(before) == 4
        assert await hits() == before
