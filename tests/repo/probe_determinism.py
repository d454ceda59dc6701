"""Runs the compiler over fixed inputs and prints a digest of each result.

Started by test_determinism.py in processes with different hash seeds and locales.
"""

import functools
import hashlib
import itertools
import json
import random
import sys
from collections.abc import Iterator

import deuz_compiler as compiler
from deuz_compiler.records.policy import Share

WORDS = ("Straße", "naïve", "東京", "cache", "tool", "0", "-", "…", "a b", '"quoted"')


def digest(value: object) -> str:
    """Return a digest of the value's own form."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def make_text(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 60)))


def make_body(wire: str, rng: random.Random, turns: int) -> bytes:
    """Return a body with tools, whose members stand in an order of their own."""
    messages: list[dict[str, object]] = []
    for number in range(turns):
        messages.append({"role": "user", "content": make_text(rng)})
        messages.append({"content": f"{number} {make_text(rng)}", "role": "assistant"})
    messages.append({"role": "user", "content": [{"type": "text", "text": "end"}]})
    members: list[tuple[str, object]] = [
        ("model", "m"),
        ("max_tokens", 100),
        ("messages", messages),
        ("temperature", 0.5),
    ]
    if wire == "anthropic":
        members.append(("system", make_text(rng)))
    rng.shuffle(members)
    return json.dumps(dict(members), ensure_ascii=rng.random() < 0.5).encode()


def walk_bodies() -> Iterator[tuple[str, str]]:
    """Lift, chain and compare growing conversations."""
    root = compiler.scope_root(b"credential", scope="tenant/name")
    for wire in ("anthropic", "openai_chat"):
        rng = random.Random(wire)
        baselines: list[compiler.Baseline] = []
        for turns in range(1, 9):
            body = make_body(wire, rng, turns)
            envelope = compiler.lift(wire, body, seed=compiler.seed_of(root))
            links = compiler.chain(envelope, root=root)
            prefix = compiler.plain_prefix(envelope)
            yield f"lineage:{wire}:{turns}", digest(links)
            yield f"prefix:{wire}:{turns}", digest(prefix)
            yield f"surface:{wire}:{turns}", digest(place_block(envelope))
            yield from walk_verdict(f"{wire}:{turns}", prefix, baselines)


def place_block(envelope: compiler.Envelope) -> bytes:
    """Return the body with a block behind its first turn."""
    placed = compiler.PlacedRecord("docs", "r1", "1", "sha256:00")
    block = compiler.Append(b"\\u0041 block", (placed,), 3)
    operations = {envelope.lead: (block,)}
    surface = compiler.project(envelope, operations, compiler.part_span)
    return compiler.lower(envelope.body, surface.edits)


def walk_verdict(
    name: str, prefix: compiler.Prefix, baselines: list[compiler.Baseline]
) -> Iterator[tuple[str, str]]:
    """Judge against all earlier conversations, which differ from the first word on."""
    current = compiler.Baseline(prefix, prefix, 0.0, 300.0)
    verdict = compiler.judge(baselines, current, body=b"", kept=lambda _: None)
    baselines.insert(0, current)
    yield f"verdict:{name}", digest(verdict)


def walk_selections() -> Iterator[tuple[str, str]]:
    """Select from pools with ties, dependencies and shares, greedily and exactly."""
    for number in range(12):
        rng = random.Random(f"pool {number}")
        candidates = make_candidates(rng)
        policy = compiler.Policy(
            budget_tokens=rng.randint(50, 400),
            shares=(Share("rag", 60), Share("memory", 40)),
            search="exact" if number % 2 else "greedy",
        )
        result = compiler.compile_context(
            candidates,
            policy,
            facts=compiler.CompileFacts(),
            estimate=compiler.estimate_text,
        )
        yield f"selection:{number}", digest(result)


def make_candidates(rng: random.Random) -> tuple[compiler.Candidate, ...]:
    """Return a pool with equal scores, so that ties have to be broken."""
    names = [f"r{number}" for number in range(20)]
    return tuple(
        compiler.Candidate(
            source=rng.choice(("docs", "notes")),
            kind=rng.choice(("rag", "memory")),
            record_id=name,
            text=make_text(rng),
            score=rng.choice((0.25, 0.5)),
            coverage_keys=tuple(rng.sample(WORDS, 2)),
            group_id=rng.choice((None, "g1", "g2")),
        )
        for name in names
    )


def walk_plans() -> Iterator[tuple[str, str]]:
    """Plan recoveries of conversations of both wires."""
    for wire in ("anthropic", "openai_chat"):
        envelope = compiler.lift(wire, make_body(wire, random.Random(wire), 12))
        history = compiler.view_turns(
            envelope.turns,
            envelope.body,
            functools.partial(compiler.read_parts, wire),
        )
        policy = compiler.CompactionPolicy(keep_recent_steps=2)
        yield f"plan:{wire}", digest(compiler.plan_recovery(history, policy))


def walk_states() -> Iterator[tuple[str, str]]:
    """Patch a working memory, render its tail, and decide refreshes."""
    memory = compiler.create_snapshot(
        "tenant/name", goal="Ölwechsel", constraints=("東京", "b"), now=1.5
    )
    patch = {
        "operation_id": "o1",
        "expected_revision": memory.revision,
        "writer": "host",
        "operations": [{"op": "set-goal", "text": 'naïve "goal"'}],
    }
    patched = compiler.apply_patch(memory, patch, now=2.0)
    tail = compiler.render_tail(
        patched.snapshot, budget_tokens=400, estimate=compiler.estimate_text
    )
    yield "memory", digest(compiler.write_snapshot(patched.snapshot))
    yield "tail", digest(tail.text)
    yield "state", digest(compiler.write_state(compiler.new_state()))


def main() -> None:
    """Print one JSON object: the digest of each step's result by its name."""
    steps = (walk_bodies(), walk_selections(), walk_plans(), walk_states())
    json.dump(dict(itertools.chain(*steps)), sys.stdout)


if __name__ == "__main__":
    main()
