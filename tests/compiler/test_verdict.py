from collections.abc import Sequence
from typing import Any

import pytest

from deuz_compiler import (
    Baseline,
    Fold,
    Operation,
    Usage,
    Verdict,
    judge,
    weigh_usage,
)
from deuz_compiler.causes import CAUSES
from deuz_compiler.verdict import OWNERS
from deuz_testing.baselines import BLOCK, TURNS, baseline, body
from deuz_testing.bodies import anthropic_body, assistant, user

BEHIND_FIRST: dict[int, tuple[Operation, ...]] = {0: (BLOCK,)}


def told(verdict: Verdict) -> tuple[str, str | None, str | None, int | None]:
    return verdict.verdict, verdict.cause, verdict.owner, verdict.index


def verdict(
    old: Sequence[Baseline],
    new: Baseline,
    *,
    body: bytes = b"",
    texts: dict[bytes, bytes] | None = None,
    own_cause: str | None = None,
) -> Verdict:
    kept = (texts or {}).get
    return judge(old, new, body=body, kept=kept, own_cause=own_cause)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (TURNS, "unchanged"),
        ([*TURNS, assistant("d"), user("e")], "extended"),
        (TURNS[:1], "shortened"),
    ],
)
def test_an_intact_prefix_is_told_by_how_its_history_went_on(
    turns: list[dict[str, object]], expected: str
) -> None:
    assert verdict([baseline(body())], baseline(body(turns))) == Verdict(expected)


def test_a_conversation_without_a_past_is_first() -> None:
    assert verdict([], baseline(body())) == Verdict("first")


def test_a_prefix_known_from_before_the_latest_has_returned() -> None:
    latest, other = baseline(body(system="plan mode")), baseline(body())

    assert verdict([latest, other], baseline(body())).verdict == "returned"


def test_a_timestamp_in_the_system_prompt_is_the_clients_break() -> None:
    old, new = body(system="at 10:01 you help"), body(system="at 10:02 you help")
    before = baseline(old)
    texts = {before.outbound.system.digest: b'"at 10:01 you help"'}

    found = verdict([before], baseline(new), body=new, texts=texts)

    assert (found.verdict, found.segment, found.cause, found.owner) == (
        "broken",
        "system",
        "system_time",
        "client",
    )
    assert found.offset == new.index(b"10:02") + len("10:0")
    # All behind the tools must be read again.
    assert found.lost_tokens == before.outbound.total_tokens - (
        before.outbound.tools.tokens
    )


@pytest.mark.parametrize(
    ("members", "segment", "cause", "owner"),
    [
        ({"model": "m2"}, "model", "model_changed", "client"),
        ({"thinking": {}}, "params", "parameter_changed", "parameter"),
        ({"tools": []}, "tools", "tool_edited", "client"),
        ({"system": "other"}, "system", "system_edited", "client"),
    ],
)
def test_each_segment_ahead_of_the_history_has_cause_and_owner(
    members: dict[str, Any], segment: str, cause: str, owner: str
) -> None:
    new = body(**members)

    found = verdict([baseline(body())], baseline(new), body=new)

    assert (found.segment, found.cause, found.owner) == (segment, cause, owner)
    assert found.lost_tokens > 0


def test_an_edited_turn_names_its_place_and_what_stood_behind_it() -> None:
    new = body([TURNS[0], assistant("other"), TURNS[2]])
    before = baseline(body())

    found = verdict([before], baseline(new), body=new)

    assert (found.segment, found.cause, found.owner, found.index) == (
        "turn",
        "turn_edited",
        "client",
        1,
    )
    # Of what stood behind the edit, only what is sent again is lost.
    assert found.lost_tokens == baseline(new).outbound.tokens_from(1)
    assert found.lost_tokens < before.outbound.tokens_from(1)


@pytest.mark.parametrize("frontier", [0, 120, 100_000])
def test_no_more_is_lost_than_the_cache_held(frontier: int) -> None:
    new = body(system="T" * 4000)
    before = baseline(body(system="S" * 4000), frontier=frontier)

    found = verdict([before], baseline(new), body=new)

    ahead = before.outbound.tools.tokens
    whole = before.outbound.total_tokens - ahead
    assert found.lost_tokens == min(whole, max(0, frontier - ahead))


def test_a_segment_that_is_gone_has_no_place() -> None:
    before = baseline(body())
    new = anthropic_body(TURNS, tools=[{"name": "t"}])

    found = verdict([before], baseline(new), body=new)

    assert (found.segment, found.offset) == ("system", None)


def test_a_block_that_vanished_is_our_break_though_the_client_went_on() -> None:
    before = baseline(body(), operations={0: (BLOCK,)})
    longer = [*TURNS, assistant("d"), user("e")]

    found = verdict([before], baseline(body(longer)))

    assert (found.verdict, found.owner, found.cause, found.index) == (
        "broken",
        "sidecar",
        "sidecar_changed",
        1,
    )


def test_a_block_that_came_is_our_break_though_the_client_went_back() -> None:
    longer = [*TURNS, assistant("d"), user("e")]

    found = verdict([baseline(body(longer))], baseline(body(), operations=BEHIND_FIRST))

    assert told(found) == ("broken", "sidecar_changed", "sidecar", 1)


@pytest.mark.parametrize("edited", [1, 2])
def test_of_two_breaks_the_first_one_counts(edited: int) -> None:
    turns = [*TURNS]
    turns[edited] = {**turns[edited], "content": "edited"}

    found = verdict([baseline(body(), operations=BEHIND_FIRST)], baseline(body(turns)))

    if edited == 1:
        # It would have broken there without us.
        assert told(found) == ("broken", "turn_edited", "client", 1)
    else:
        assert told(found) == ("broken", "sidecar_changed", "sidecar", 1)


def test_turns_ahead_are_the_clients_and_not_told_where_some_were_condensed() -> None:
    before = baseline(body(), operations=BEHIND_FIRST)
    fold = Fold(turns=2, text=b"in short", tokens=2)

    assert [before.turns_ahead(element) for element in range(4)] == [0, 1, 1, 2]
    longer = body([*TURNS, assistant("d"), user("e")])
    assert baseline(longer, operations={1: (fold,)}).turns_ahead(1) is None


def test_a_deliberate_change_of_ours_has_its_own_cause() -> None:
    before = baseline(body(), operations={0: (BLOCK,)})

    found = verdict([before], baseline(body()), own_cause="overflow_recovery")

    assert (found.owner, found.cause) == ("sidecar", "overflow_recovery")


def test_a_block_that_stays_where_it_was_extends_the_prefix() -> None:
    operations: dict[int, tuple[Operation, ...]] = {0: (BLOCK,)}
    before = baseline(body(), operations=operations)
    longer = [*TURNS, assistant("d"), user("e")]

    after = baseline(body(longer), operations={**operations, 4: (BLOCK,)})

    assert verdict([before], after) == Verdict("extended")


def usage(read: int | None) -> Usage:
    return Usage(input_uncached=10, cache_read=read, cache_write=0)


@pytest.mark.parametrize(
    ("read", "now", "missed", "owner", "cause"),
    [
        (2000, 1010.0, 0, None, None),
        (1950, 1010.0, 50, None, None),
        (0, 1010.0, 2000, "provider", "provider_miss"),
        (0, 2000.0, 2000, "ttl", "ttl_expired"),
    ],
)
def test_usage_tells_whose_a_miss_on_an_intact_prefix_is(
    read: int, now: float, missed: int, owner: str | None, cause: str | None
) -> None:
    latest = baseline(body(), frontier=2000)

    found = weigh_usage(Verdict("extended"), latest, usage(read), now=now)

    assert found.verdict == "extended"
    assert (found.expected_tokens, found.missed_tokens) == (2000, missed)
    assert (found.owner, found.cause) == (owner, cause)


@pytest.mark.parametrize(
    ("latest", "told"),
    [
        (None, usage(0)),
        (baseline(body()), usage(0)),
        (baseline(body(), frontier=2000), None),
        (baseline(body(), frontier=2000), usage(None)),
    ],
)
def test_without_evidence_nothing_is_claimed(
    latest: Baseline | None, told: Usage | None
) -> None:
    plain = Verdict("extended")

    assert weigh_usage(plain, latest, told, now=1010.0) == plain


def test_a_break_expects_nothing_of_the_cache() -> None:
    broken = Verdict("broken", "system", "system_time", "client", lost_tokens=9)
    latest = baseline(body(), frontier=2000)

    assert weigh_usage(broken, latest, usage(0), now=1010.0) == broken


def test_own_causes_and_owners_are_of_the_closed_lists() -> None:
    assert {"overflow_recovery", "ledger_lost", "sidecar_changed"} <= set(CAUSES)
    assert {"client", "sidecar", "ttl", "provider", "parameter"} <= set(OWNERS)


def test_a_parameter_that_spoils_the_history_alone_costs_the_history_alone() -> None:
    old = baseline(body())

    told = verdict([old], baseline(body(tool_choice={"type": "any"})))

    assert (told.segment, told.owner) == ("params", "parameter")
    assert told.lost_tokens == old.outbound.history_tokens
