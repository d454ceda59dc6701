"""Choose the turns that one summary may stand for.

Rules:
- The oldest unprotected run of at least two turns; never the user's first words.
- A call and its results are on the same side of every cut; so is an answer that opens
  with a turn that is all reasoning: OpenAI refuses each of its items without it.
- Rolling: what a summary of ours already stands for is merged into the next one, so
  there is never more than one. A run of nothing but summaries stays.
- The newest question is repeated word for word if the run takes it.
- A summary is a user turn. It never follows a system turn in the middle of a history,
  which some providers let only an assistant turn follow.
"""

from collections.abc import Sequence

import msgspec

from deuz_compiler.compaction.history import History
from deuz_compiler.compaction.protect import newest_question
from deuz_compiler.tokens.estimate import estimate_text
from deuz_compiler.wires.own import split_question
from deuz_compiler.wires.parts import TOOL_CALL, TOOL_RESULT, transcribe, words_of

_LEAST_TURNS = 2


class Folded(msgspec.Struct, frozen=True, gc=False):
    """A fold that is in force: the turns `first` to `last`, and its summary's text.

    `kept` are the turns among them that stand behind the summary.
    """

    first: int
    last: int
    summary: str
    kept: tuple[int, ...] = ()

    def hides(self, index: int) -> bool:
        """Tell whether the summary stands for the turn."""
        return self.first <= index <= self.last and index not in self.kept


class FoldRun(msgspec.Struct, frozen=True, gc=False):
    """The turns `first` to `last` to be replaced by one summary.

    `previous` is the summary to be merged, "" if none. `lines` are the new turns for
    the summariser to read. `question` is to be repeated word for word, "" if it stays
    in place. `replaced_tokens` is what a summary must stay below. `kept` are turns of
    the run that stay, behind the summary and in this order. `is_whole`: it takes the
    newest step as well.
    """

    first: int
    last: int
    previous: str
    lines: tuple[str, ...]
    question: str
    replaced_tokens: int
    kept: tuple[int, ...] = ()
    is_whole: bool = False

    def leaves(self, index: int) -> bool:
        """Tell whether the turn is still there behind the fold."""
        return not self.first <= index <= self.last or index in self.kept


def choose_fold(
    history: History,
    protected: Sequence[bool],
    *,
    known: Folded | None = None,
    must_alternate: bool = False,
) -> FoldRun | None:
    """Return the run to fold, or None.

    A fold in force must be part of the next one. `must_alternate` is for servers that
    refuse neighbouring user turns: an assistant turn has to follow.
    """
    is_cut, lead = legal_cuts(history), _lead(history)
    systems = _kept_systems(history, known)
    # A system turn behind the summary lets only the assistant follow.
    needs_assistant = must_alternate or bool(systems)
    for first, stop in _stretches(protected, known):
        starts = [first] if known else [a for a in range(first, stop) if is_cut[a]]
        starts = [a for a in starts if known or not _follows_system(history, a, lead)]
        stops = [
            b
            for b in range(first, stop + 1)
            if is_cut[b] and (not needs_assistant or _is_assistant(history, b))
        ]
        if starts and stops and _is_worth(history, starts[0], stops[-1], known):
            return fold_run(history, starts[0], stops[-1], known=known, kept=systems)
    return None


def legal_cuts(history: History) -> tuple[bool, ...]:
    """Return for each turn, and for the end, whether a run may start or stop there."""
    # How far the turns that start ahead of a cut have to stay together.
    reach = 0
    is_cut = [_may_cut(history, 0)]
    ends = dict(_answer_spans(history))
    for start, end in _call_spans(history):
        ends[start] = max(end, ends.get(start, 0))
    for at in range(1, len(history) + 1):
        reach = max(reach, ends.get(at - 1, 0))
        is_cut.append(at > reach and _may_cut(history, at))
    return tuple(is_cut)


def fold_run(
    history: History,
    first: int,
    stop: int,
    *,
    known: Folded | None = None,
    kept: tuple[int, ...] = (),
) -> FoldRun:
    """Return the run of the turns from `first` up to `stop`, all but the kept ones."""
    older = [(known.first, known.summary)] if known else []
    lines: list[str] = []
    tokens = estimate_text(known.summary) if known else 0
    for index in range(first, stop):
        view = history[index]
        if index in kept or (known is not None and known.hides(index)):
            continue
        tokens += view.turn.tokens
        if view.summary is not None:
            older.append((index, view.summary))
        else:
            lines += transcribe(view.turn.role, view.parts)
    older.sort()
    question = _taken_question(history, first, stop, older)
    return FoldRun(
        first,
        stop - 1,
        previous="\n".join(split_question(body)[0] for _, body in older),
        lines=tuple(lines),
        question=question,
        replaced_tokens=max(0, tokens - estimate_text(question)),
        kept=kept,
    )


def _may_cut(history: History, at: int) -> bool:
    """Tell whether the turn at the cut may stand apart from the one before it."""
    return at == len(history) or not history[at].has_results


def _call_spans(history: History) -> list[tuple[int, int]]:
    """Return from which turn to which a call and its results must stay together."""
    spans = []
    called: dict[str, int] = {}
    for index, view in enumerate(history):
        for part in view.parts:
            if part.kind == TOOL_CALL:
                called[part.call_id] = index
            elif part.kind == TOOL_RESULT and part.call_id in called:
                spans.append((called[part.call_id], index))
    return spans


def _answer_spans(history: History) -> list[tuple[int, int]]:
    """Return from which turn to which an answer goes that opens with reasoning."""
    spans = []
    end = len(history) - 1
    for index in range(len(history) - 1, -1, -1):
        if not _is_assistant(history, index + 1):
            end = index
        if history[index].is_only_reasoning:
            spans.append((index, end))
    return spans


def _kept_systems(history: History, known: Folded | None) -> tuple[int, ...]:
    kept = known.kept if known else ()
    return tuple(index for index in kept if history[index].turn.role == "system")


def _stretches(
    protected: Sequence[bool], known: Folded | None
) -> list[tuple[int, int]]:
    """Return the runs of turns that may go; with a fold in force, the one around it."""
    if known:
        stop = known.last + 1
        while stop < len(protected) and not protected[stop]:
            stop += 1
        return [(known.first, stop)]
    stretches = []
    start = None
    for index, is_kept in enumerate([*protected, True]):
        if is_kept and start is not None:
            stretches.append((start, index))
        start = None if is_kept else index if start is None else start
    return stretches


def _lead(history: History) -> int:
    """Return how many system turns the history opens with."""
    others = (i for i, view in enumerate(history) if view.turn.role != "system")
    return next(others, len(history))


def _follows_system(history: History, at: int, lead: int) -> bool:
    return at > lead and history[at - 1].turn.role == "system"


def _is_assistant(history: History, at: int) -> bool:
    return at < len(history) and history[at].turn.role == "assistant"


def _is_worth(history: History, first: int, stop: int, known: Folded | None) -> bool:
    if known:
        return stop > known.last + 1
    is_new = any(view.summary is None for view in history[first:stop])
    return stop - first >= _LEAST_TURNS and is_new


def _taken_question(
    history: History, first: int, stop: int, older: Sequence[tuple[int, str]]
) -> str:
    """Return the newest question if the run takes it, a turn or an older repeat."""
    newest = newest_question(history)
    if newest >= stop:
        return ""
    repeated = [
        question
        for index, body in older
        if index > newest and (question := split_question(body)[1])
    ]
    if repeated:
        return repeated[-1]
    return words_of(history[newest].parts) if newest >= first else ""
