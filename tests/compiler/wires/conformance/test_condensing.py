"""Laws of compaction: whatever is condensed, the provider takes what is left."""

import json

from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    CompactionPolicy,
    Fold,
    Operation,
    Prune,
    escape_json_string,
    lift,
    lower,
    part_span,
    plan_recovery,
    project,
    read_parts,
    render_summary,
    view_turns,
)
from deuz_proxy.demo.provider.judging import judge_body
from deuz_testing.specimens.form import Specimens
from deuz_testing.specimens.talks import plain, talks


def condensed(s: Specimens, body: bytes, *, form: str, keep: int) -> bytes:
    """Apply the plan as the ledger keeps it: operations on turns."""
    envelope = lift(s.wire, body)
    history = view_turns(envelope.turns, body, lambda raw: read_parts(s.wire, raw))
    policy = CompactionPolicy(keep_recent_steps=keep, must_alternate=form == "part")
    plan = plan_recovery(history, policy)
    operations: dict[int, tuple[Operation, ...]] = {
        pruned.turn: (Prune(pruned.stubs),) for pruned in plan.prunes
    }
    if plan.fold is not None:
        text = escape_json_string(render_summary("notes", plan.fold.question))
        fold = Fold(plan.fold.last - plan.fold.first + 1, text, 3, form)
        held = operations.get(plan.fold.last, ())
        operations[plan.fold.last] = (*held, fold)
    return lower(body, project(envelope, operations, part_span).edits)


@given(data=st.data(), form=st.sampled_from(["turn", "part"]), keep=st.integers(1, 3))
def test_the_provider_takes_what_compaction_leaves(
    s: Specimens, data: st.DataObject, form: str, keep: int
) -> None:
    turns = data.draw(talks(s, most_steps=8))
    body = plain(s, turns, tools=s.tools)

    out = condensed(s, body, form=form, keep=keep)

    assert judge_body(s.wire, out) is None
    left = json.loads(out)
    assert left[s.history][-1] == turns[-1]
    assert {k: v for k, v in left.items() if k != s.history} == {
        **s.head,
        "tools": s.tools,
    }
    assert len(out) <= len(body) or b"condensed" in out


def test_a_long_talk_is_folded_and_its_old_results_are_pruned(s: Specimens) -> None:
    talk = [s.said("first")]
    for number in range(6):
        talk += s.called([f"c{number}"])
        talk += s.resulted([f"c{number}"], "long " * 400)
        talk += [s.answered(f"answer {number}"), s.said(f"question {number}")]
    body = plain(s, talk)

    out = condensed(s, body, form="turn", keep=1)

    assert judge_body(s.wire, out) is None
    assert len(out) * 4 < len(body)
    assert b"notes" in out
