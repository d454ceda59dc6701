from collections.abc import Sequence
from itertools import count

import pytest

from deuz_compiler import Baseline, Prefix, lift, plain_prefix
from deuz_compiler import chain as chain_of
from deuz_proxy.calls import Sighting
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.bodies import anthropic_body, user

ROOT = b"r" * 16


class Seen:
    """A tracker and what tests ask of it: a history of words, one a turn."""

    def __init__(self, **bounds: int) -> None:
        numbers = count(1)
        self.tracker = Tracker(new_id=lambda: f"c{next(numbers)}", **bounds)
        self.at = 0.0

    def look(
        self,
        words: str,
        *,
        system: str = "s",
        session: bytes | None = None,
        is_probe: bool = False,
    ) -> tuple[Sighting, Sequence[bytes], Prefix]:
        body = anthropic_body([user(word) for word in words.split()], system=system)
        envelope = lift("anthropic", body)
        keys = chain_of(envelope, root=ROOT)
        prefix = plain_prefix(envelope)
        sighting = self.tracker.sight(keys, prefix, session=session, is_probe=is_probe)
        return sighting, keys, prefix

    def send(
        self, words: str, *, system: str = "s", session: bytes | None = None
    ) -> Sighting:
        self.at += 1
        sighting, keys, prefix = self.look(words, system=system, session=session)
        self.tracker.record(
            sighting,
            keys,
            Baseline(prefix, prefix, self.at, 300.0),
            session=session,
            texts=[(prefix.system.digest, system.encode())],
        )
        return sighting


@pytest.fixture
def seen() -> Seen:
    return Seen()


def test_an_unknown_history_is_a_new_conversation(seen: Seen) -> None:
    assert seen.send("a") == Sighting("c1")
    assert seen.send("b") == Sighting("c2")
    assert len(seen.tracker) == 2


def test_looking_changes_nothing(seen: Seen) -> None:
    seen.send("a")

    assert seen.look("a b")[0].baselines == seen.look("a b")[0].baselines
    assert len(seen.tracker) == 1


def test_a_history_that_goes_on_is_the_same_conversation(seen: Seen) -> None:
    first = seen.send("a")
    second = seen.send("a b c")

    assert second.conversation == first.conversation
    assert [baseline.at for baseline in second.baselines] == [1.0]
    assert not second.is_fork


def test_a_history_sent_once_more_is_the_same_conversation(seen: Seen) -> None:
    seen.send("a b")

    again = seen.send("a b")

    assert (again.conversation, again.is_fork) == ("c1", False)


def test_a_history_sent_twice_that_goes_on_twice_is_a_fork(seen: Seen) -> None:
    seen.send("a")
    seen.send("a")
    seen.send("a b")

    fork = seen.send("a x")

    assert fork.is_fork
    assert fork.conversation == "c2"
    assert [baseline.inbound.count for baseline in fork.baselines] == [1, 2]


def test_a_fork_goes_on_as_a_conversation_of_its_own(seen: Seen) -> None:
    for words in ("a", "a", "a b", "a x"):
        seen.send(words)

    assert seen.send("a b c").conversation == "c1"
    assert seen.send("a x y").conversation == "c2"


def test_a_place_that_goes_on_once_more_than_it_was_sent_is_an_edit(
    seen: Seen,
) -> None:
    seen.send("a")
    seen.send("a b")

    edit = seen.look("a x")[0]

    assert (edit.conversation, edit.is_fork) == ("c1", False)
    assert edit.baselines[0].inbound.count == 2


def test_an_edit_of_a_history_first_seen_long_is_an_edit_too(seen: Seen) -> None:
    seen.send("a b c d e")

    edit = seen.look("a b X d e")[0]

    assert (edit.conversation, edit.is_fork) == ("c1", False)
    assert edit.baselines[0].inbound.count == 5


def test_an_early_edit_of_a_long_conversation_is_still_recognised(seen: Seen) -> None:
    words = "a b c"
    seen.send(words)
    for number in range(20):
        words += f" w{number}"
        seen.send(words)

    edit = seen.look("a X c")[0]

    assert edit.conversation == "c1"


def test_other_tools_or_system_are_kept_as_baselines_beside(seen: Seen) -> None:
    seen.send("a", system="one")
    seen.send("a b", system="two")

    back = seen.send("a b c", system="one")

    assert [b.at for b in back.baselines] == [2.0, 1.0]
    assert [b.at for b in seen.look("a b c d", system="one")[0].baselines] == [3.0, 2.0]


def test_baselines_are_few(seen: Seen) -> None:
    words = "a"
    for number in range(9):
        seen.send(words, system=f"system {number}")
        words += " b"

    assert [b.at for b in seen.look(words)[0].baselines] == [9.0, 8.0, 7.0, 6.0]


def test_a_probe_is_a_side_call(seen: Seen) -> None:
    assert seen.look("quota", is_probe=True)[0].is_side_call


def test_within_a_session_another_head_is_a_side_call(seen: Seen) -> None:
    seen.send("a", session=b"s")

    title = seen.send("title please", system="Write a title.", session=b"s")
    fresh = seen.look("new chat", session=b"s")[0]
    elsewhere = seen.look("title please now", system="Write a title.")[0]

    assert title.is_side_call
    assert not fresh.is_side_call
    assert elsewhere.conversation == title.conversation
    # The side call has not taken the session's place.
    assert seen.look("b", system="other", session=b"s")[0].is_side_call


def test_the_texts_of_a_head_are_kept_by_digest_within_their_bound() -> None:
    seen = Seen(max_text_bytes=10)
    digests = []
    for text in ("12345", "abcde", "12345", "vwxyz"):
        digests.append(seen.look("a", system=text)[2].system.digest)
        seen.send("a", system=text)

    assert seen.tracker.kept_text(digests[0]) == b"12345"
    assert seen.tracker.kept_text(digests[1]) is None
    assert seen.tracker.kept_text(digests[3]) == b"vwxyz"


def test_what_the_provider_holds_is_noted_at_the_newest_baseline(seen: Seen) -> None:
    seen.send("a")
    seen.tracker.note_frontier("c1", 900)
    seen.tracker.note_frontier("nobody", 1)

    assert seen.look("a b")[0].baselines[0].frontier_tokens == 900


def test_the_least_recently_used_conversation_goes_as_a_whole() -> None:
    seen = Seen(max_conversations=2)
    seen.send("a", session=b"1")
    seen.send("b b2", session=b"2")
    seen.send("a a2")

    seen.send("c", session=b"3")

    assert len(seen.tracker) == 2
    assert seen.look("a a2 a3")[0].baselines
    assert not seen.look("b b2 b3")[0].baselines
    assert len(seen.tracker._nodes) == 3
    assert len(seen.tracker._sessions) == 2


def test_many_conversations_leave_a_bounded_number_of_places() -> None:
    seen = Seen(max_conversations=5)
    for number in range(50):
        words = f"w{number}"
        for turn in range(12):
            seen.send(words)
            words += f" t{turn}"

    assert len(seen.tracker) == 5
    places = [n for each in seen.tracker._conversations.values() for n in each.nodes]
    assert len(places) == 5 * 8
    assert seen.tracker._nodes == {node.key: node for node in places}


def test_an_empty_history_is_no_conversation(seen: Seen) -> None:
    sighting, _, prefix = seen.look("a")

    seen.tracker.record(
        sighting, (), Baseline(prefix, prefix, 0.0, 1.0), session=None, texts=()
    )

    assert len(seen.tracker) == 0


def test_equal_requests_under_way_together_may_each_go_on(seen: Seen) -> None:
    under_way = [seen.look("a") for _ in range(3)]
    for sighting, keys, prefix in under_way:
        seen.tracker.record(
            sighting, keys, Baseline(prefix, prefix, 0.0, 300.0), session=None, texts=()
        )

    later = [seen.send(f"a {word}") for word in "xyz"]

    assert [sighting.is_fork for sighting in later] == [False, True, True]
    assert [sighting.baselines[0].inbound.count for sighting in later] == [1, 1, 1]


def test_a_fork_is_compared_with_what_was_sent_at_its_place(seen: Seen) -> None:
    seen.send("a b c")
    seen.send("a x y z")

    back = seen.send("a b c d e")

    assert back.is_fork
    assert back.baselines[0].at == 1.0


def test_of_several_heads_at_its_place_a_fork_is_compared_with_its_own(
    seen: Seen,
) -> None:
    seen.send("a", system="one")
    seen.send("a", system="two")
    seen.send("a b", system="two")

    fork = seen.send("a x", system="one")

    assert fork.is_fork
    assert fork.baselines[0].at == 1.0


def test_a_place_sent_once_more_has_returned_there(seen: Seen) -> None:
    seen.send("a b c")
    seen.send("a x")

    again = seen.send("a b c")

    assert [baseline.at for baseline in again.baselines] == [2.0, 1.0]


def test_a_place_that_is_sent_again_and_again_is_not_forgotten(seen: Seen) -> None:
    seen.send("z")
    for number in range(9):
        seen.send("z a")
        seen.send(f"z w{number}")

    assert seen.send("z a b").is_fork


def test_a_place_that_is_returned_to_is_there_when_the_first_one_is_put_in_again() -> (
    None
):
    seen = Seen(max_conversations=2)
    seen.send("a")
    seen.send("a")
    seen.send("a b")
    fork = seen.send("a c").conversation
    history = "a c"
    for word in "defghij":
        history += f" {word}"
        seen.send(history)
    # Whose the first place was is gone with it.
    seen.send("z")

    seen.send("a c d")

    after, keys, _ = seen.look("a c d x")
    assert after.conversation == fork
    assert seen.tracker.longest(keys) == (3, fork)


def test_a_place_where_a_branch_waits_outlives_those_that_went_on(seen: Seen) -> None:
    seen.send("z a")
    seen.send("z a")
    words = "z a"
    for number in range(12):
        words += f" w{number}"
        seen.send(words)

    waiting = seen.send("z a b")

    assert waiting.is_fork
    assert waiting.baselines[0].inbound.count == 2


def test_what_another_tracker_knows_can_be_taken_over(seen: Seen) -> None:
    for words in ("a", "a", "a b", "a x"):
        seen.send(words)
    other = Seen()
    other.at = seen.at
    for name in ("c1", "c2"):
        state = seen.tracker.state_of(name)
        assert state is not None
        other.tracker.take(name, state)

    other.tracker.note_session(b"s", "c1")

    assert len(other.tracker) == 2
    assert other.tracker.session_of(b"s") == "c1"
    for words in ("a b c", "a x y", "a z"):
        assert other.look(words)[0].baselines == seen.look(words)[0].baselines
        keys = other.look(words)[1]
        assert other.tracker.longest(keys) == seen.tracker.longest(keys)


def test_what_is_taken_over_replaces_what_was_here(seen: Seen) -> None:
    seen.send("a")
    state = seen.tracker.state_of("c1")
    assert state is not None
    seen.send("a b")

    seen.tracker.take("c1", state)

    assert seen.tracker.longest(seen.look("a b c")[1]) == (1, "c1")
    assert seen.tracker.state_of("c9") is None
    assert seen.tracker.session_of(b"none") is None
