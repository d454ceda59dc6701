"""The plain form: one JSON object in, one JSON object out.

Input: `candidates` (a list), `policy` (an object) and, optionally, `facts`; members are
named as the fields of the records are. Output: `selected` with texts, `tokens`, the
`manifest` and its digest, the `refusal` and the `trace`.

Rules:
- Exit codes: 0 a bundle, 3 a refusal, 2 malformed input, with every fault listed.
- Records that break the rules are faults here unless the policy says `exclude`.
"""

from collections.abc import Callable, Mapping

import msgspec

from deuz_compiler.canonical import canonical_json
from deuz_compiler.compilation import Compilation, compile_context
from deuz_compiler.errors import MalformedInput
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.facts import CompileFacts
from deuz_compiler.records.loading import (
    UNREADABLE,
    load_record,
    load_records,
    parse_json,
)
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.faults import input_faults

BUNDLE_CODE, MALFORMED_CODE, REFUSAL_CODE = 0, 2, 3


def compile_json(
    payload: bytes, *, estimate: Callable[[str], int]
) -> tuple[bytes, int]:
    """Return the answer as JSON text, and the exit code that belongs to it.

    `estimate` counts the texts of candidates that declare no tokens.
    """
    try:
        candidates, policy, facts = _read(payload)
        compiled = compile_context(candidates, policy, facts=facts, estimate=estimate)
    except MalformedInput as error:
        report = {"error": {"code": error.code, "faults": error.faults}}
        return _printed(report), MALFORMED_CODE
    code = BUNDLE_CODE if compiled.refusal is None else REFUSAL_CODE
    return _printed(_answer(compiled)), code


def _read(payload: bytes) -> tuple[tuple[Candidate, ...], Policy, CompileFacts]:
    faults: list[str] = []
    raw = parse_json(payload, where="input", faults=faults)
    if not isinstance(raw, Mapping):
        raise MalformedInput(tuple(faults) or ("input: not an object",))
    parts = ("candidates", "policy", "facts")
    faults.extend(f"input: unknown field {name}" for name in raw if name not in parts)
    faults.extend(f"input: {name} is missing" for name in parts[:2] if name not in raw)
    offered = raw.get("candidates", UNREADABLE)
    candidates = load_records(Candidate, offered, where="candidates", faults=faults)
    policy = load_record(
        Policy, _strict(raw.get("policy", UNREADABLE)), where="policy", faults=faults
    )
    facts = load_record(
        CompileFacts, raw.get("facts", {}), where="facts", faults=faults
    )
    if faults:
        # What could be read is looked at too, so that one answer tells all.
        is_whole = isinstance(offered, list) and len(candidates) == len(offered)
        placed = _placed_keys(facts) if is_whole else None
        faults.extend(input_faults(candidates, policy, placed=placed))
    if policy is None or facts is None or faults:
        raise MalformedInput(tuple(faults))
    return candidates, policy, facts


def _placed_keys(facts: CompileFacts | None) -> frozenset[str] | None:
    if facts is None:
        return None
    return frozenset([record.key for record in facts.placed])


def _strict(policy: object) -> object:
    """Make faults count where the policy says nothing of them."""
    return {"faults": "raise", **policy} if isinstance(policy, Mapping) else policy


def _answer(compiled: Compilation) -> dict[str, object]:
    return {
        "selected": compiled.selected,
        "tokens": compiled.tokens,
        "manifest": compiled.manifest,
        "manifest_digest": compiled.manifest.digest(),
        "refusal": compiled.refusal,
        "trace": compiled.trace,
    }


def _printed(answer: Mapping[str, object]) -> bytes:
    return msgspec.json.format(canonical_json(answer), indent=2) + b"\n"
