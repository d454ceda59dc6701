from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Baseline,
    Fold,
    Operation,
    SegmentShare,
    Verdict,
    judge,
    judged_shares,
    lift,
    matching_baseline,
    project,
    segment_shares,
)
from deuz_compiler.pieces import pack_ours
from deuz_testing.baselines import BLOCK, TURNS, baseline, body
from deuz_testing.bodies import assistant, user


def verdict(old: Sequence[Baseline], new: Baseline) -> Verdict:
    return judge(old, new, body=b"", kept=lambda _: None)


def test_shares_are_told_against_the_prefix_that_returned() -> None:
    latest, older = (baseline(body(system=f"{mode} mode")) for mode in ("plan", "act"))
    other, current = baseline(body()), baseline(body())
    known = [latest, older, other]

    reference = matching_baseline(known, current, verdict(known, current))

    assert reference == other
    shares = segment_shares(reference, current.outbound)
    assert sum(share.lost_tokens for share in shares) == 0


def test_shares_are_told_against_the_latest_prefix_where_none_returned() -> None:
    latest, current = baseline(body(system="plan mode")), baseline(body())
    broken = verdict([latest], current)

    assert matching_baseline([latest], current, broken) == latest
    assert matching_baseline([latest], latest, Verdict("unchanged")) == latest
    assert matching_baseline([], current, Verdict("first")) is None


def test_shares_of_an_extended_prefix_are_reused_and_new() -> None:
    before = baseline(body())
    after = baseline(body([*TURNS, assistant("d"), user("e")])).outbound

    shares = segment_shares(before, after)

    tools, system, turns, context = shares
    assert (tools.lost_tokens, tools.new_tokens) == (0, 0)
    assert system.reused_tokens == after.system.tokens
    assert turns == SegmentShare(
        "turn", before.outbound.tokens_from(0), 0, after.tokens_from(3)
    )
    assert context == SegmentShare("context", 0, 0, 0)


def test_shares_behind_a_break_are_lost_up_to_their_old_size() -> None:
    before = baseline(body())
    after = baseline(body(system="S and much more " * 20)).outbound

    tools, system, turns, _ = segment_shares(before, after)

    assert tools.reused_tokens == after.tools.tokens
    assert system.lost_tokens == before.outbound.system.tokens
    assert system.new_tokens == after.system.tokens - system.lost_tokens
    assert turns == SegmentShare("turn", 0, after.tokens_from(0), 0)


def test_shares_of_a_first_request_are_all_new() -> None:
    after = baseline(body(), operations={0: (BLOCK,)}).outbound

    shares = segment_shares(None, after, pack_ours([(1, 40)]))

    assert sum(s.new_tokens for s in shares) == after.total_tokens
    assert shares[3] == SegmentShare("context", 0, 0, 40)


def test_shares_of_what_we_added_are_told_apart_from_the_client_s() -> None:
    before = baseline(body(), operations={0: (BLOCK,)})
    turns = [*TURNS, user("more")]
    after = baseline(body(turns), operations={0: (BLOCK,)}).outbound
    place, tokens = 1, after.token_counts()[1]

    shares = segment_shares(before, after, pack_ours([(place, tokens)]))

    context = SegmentShare("context", tokens, 0, 0)
    known = before.outbound.history_tokens
    new = after.history_tokens - known
    assert shares[2:] == (SegmentShare("turn", known - tokens, 0, new), context)


def test_a_parameter_that_spoils_the_history_alone_loses_the_history_alone() -> None:
    old = baseline(body())

    shares = segment_shares(old, baseline(body(tool_choice={"type": "any"})).outbound)

    assert [share.lost_tokens > 0 for share in shares] == [False, False, True, False]


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 9)), max_size=5),
    st.integers(1, 6),
    st.integers(1, 6),
)
def test_shares_of_what_we_added_are_those_of_their_places(
    ours: list[tuple[int, int]], before: int, after: int
) -> None:
    turns = [turn for _ in range(6) for turn in (user("q"), assistant("a"))]
    old, new = baseline(body(turns[: 2 * before])), baseline(body(turns[: 2 * after]))
    shared = min(before, after) * 2

    *_, context = segment_shares(old, new.outbound, pack_ours(sorted(ours)))

    reused = sum(tokens for place, tokens in ours if place < shared)
    added = sum(t for place, t in ours if shared <= place < new.outbound.count)
    assert context == SegmentShare("context", reused, 0, added)


TALK = [turn for _ in range(4) for turn in (user("q"), assistant("a"))]
MARKED: dict[str, object] = {
    "role": "user",
    "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}],
}
OPERATIONS = st.dictionaries(
    st.integers(0, 7),
    st.sampled_from([(BLOCK,), (Fold(1, b"S", 3),), (Fold(3, b"S", 3, kept=(0, 1)),)]),
    max_size=3,
)


@given(st.lists(st.tuples(st.integers(1, 4), OPERATIONS), min_size=2, max_size=4))
def test_shares_of_what_was_judged_are_those_of_what_it_goes_on_from(
    sent: list[tuple[int, dict[int, tuple[Operation, ...]]]],
) -> None:
    # A marker that moves on is no part of what the provider sees.
    bodies = [body([*TALK[: 2 * n - 2], MARKED, TALK[1]]) for n, _ in sent]
    made = [
        baseline(each, operations=operations)
        for each, (_, operations) in zip(bodies, sent, strict=True)
    ]
    envelope, (current, *known) = lift("anthropic", bodies[0]), made
    surface = project(envelope, sent[0][1], lambda wire, raw, part: (0, 0))
    ours = surface.ours(0)
    told = verdict(known, current)

    shares = judged_shares(told, known, current, ours)

    reference = matching_baseline(known, current, told)
    assert shares == segment_shares(reference, current.outbound, ours)
    total = sum(s.reused_tokens + s.lost_tokens + s.new_tokens for s in shares)
    assert total == current.outbound.total_tokens
    if reference is not None and told.verdict in ("extended", "unchanged"):
        new = current.outbound.tokens_from(reference.outbound.count)
        assert sum(share.new_tokens for share in shares) == new
