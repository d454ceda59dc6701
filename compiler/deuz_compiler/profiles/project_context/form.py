"""One call of the project-context-compiler form: three files in, one answer out.

Rules:
- Exit codes: 0 a bundle, 3 a refusal, 2 malformed input.
- The names of the case come from the request's id (`FIXTURE-req-BUDGET`) unless given.
- Same engine, same decisions: the form is a policy and a renderer.
"""

import re
from typing import Literal

from deuz_compiler.canonical import canonical_json
from deuz_compiler.compilation import compile_context
from deuz_compiler.errors import MalformedInput
from deuz_compiler.profiles.project_context.records import Declared, read_declared
from deuz_compiler.profiles.project_context.render import Outcome, golden_form
from deuz_compiler.profiles.project_context.translate import (
    engine_candidate,
    engine_policy,
    rough_tokens,
)
from deuz_compiler.records.facts import CompileFacts
from deuz_compiler.selection.faults import input_faults

BUNDLE_CODE, MALFORMED_CODE, REFUSAL_CODE = 0, 2, 3

_CASE = re.compile(r"(?P<fixture>.+)-req(?:-(?P<budget>[a-z]+))?")


def compile_profile(
    request: bytes,
    candidates: bytes,
    policy: bytes,
    *,
    search: Literal["greedy", "exact"] = "greedy",
) -> tuple[str, int]:
    """Return the answer as text, and the exit code that belongs to it."""
    try:
        declared = load_declared(request, candidates, policy)
        outcome = compile_declared(declared, search=search)
    except MalformedInput as error:
        report = {"error": {"code": error.code, "faults": error.faults}}
        return canonical_json(report).decode() + "\n", MALFORMED_CODE
    fixture, budget = case_of(declared.request.request_id)
    text = golden_form(declared, outcome, fixture=fixture, budget=budget)
    return text, BUNDLE_CODE if outcome.refusal is None else REFUSAL_CODE


def load_declared(request: bytes, candidates: bytes, policy: bytes) -> Declared:
    """Read the three files; where one has faults, judge what could be read as well.

    Raises:
        MalformedInput: any of them breaks its schema, or they do not belong together.
    """
    reading = read_declared(request, candidates, policy)
    if reading.declared is not None:
        return reading.declared
    pool = [engine_candidate(candidate) for candidate in reading.candidates]
    placed: frozenset[str] | None = frozenset() if reading.is_whole else None
    raise MalformedInput(reading.faults + input_faults(pool, None, placed=placed))


def compile_declared(
    declared: Declared, *, search: Literal["greedy", "exact"] = "greedy"
) -> Outcome:
    """Run the engine on the form's records.

    Raises:
        MalformedInput: the candidates do not fit together.
    """
    rules = engine_policy(declared, search)
    compiled = compile_context(
        [engine_candidate(candidate) for candidate in declared.candidates],
        rules,
        facts=CompileFacts(),
        estimate=rough_tokens,
    )
    by_id = {candidate.candidate_id: candidate for candidate in declared.candidates}
    return Outcome(
        items=tuple([by_id[chosen.record_id] for chosen in compiled.selected]),
        item_tokens=tuple(
            [(c.tokens or 0) + (c.label_tokens or 0) for c in compiled.selected]
        ),
        tokens=compiled.tokens,
        trace=compiled.trace,
        refusal=compiled.refusal,
    )


def case_of(request_id: str) -> tuple[str, str | None]:
    """Return the fixture and the budget word that a request's id is made of."""
    match = _CASE.fullmatch(request_id)
    return (match["fixture"], match["budget"]) if match else (request_id, None)
