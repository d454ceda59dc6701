"""Prefixes that a provider has seen, made of bodies."""

from collections.abc import Sequence

from deuz_compiler import (
    Append,
    Baseline,
    Operation,
    lift,
    plain_prefix,
    project,
    standing_of,
    with_surface,
)
from deuz_testing.bodies import anthropic_body, assistant, user

TURNS = [user("a" * 400), assistant("b" * 400), user("c" * 400)]
BLOCK = Append(b"block " * 20, (), 40)


def baseline(
    body: bytes,
    *,
    operations: dict[int, tuple[Operation, ...]] | None = None,
    frontier: int | None = None,
) -> Baseline:
    envelope = lift("anthropic", body)
    inbound = plain_prefix(envelope)
    laid = project(envelope, operations or {}, lambda wire, raw, part: (0, 0))
    outbound = with_surface(inbound, envelope, laid)
    turns = len(envelope.turns)
    standing = standing_of(envelope, laid, inbound, outbound, turns=turns)
    plain = standing.marks.ours.within if standing else inbound
    return Baseline(plain, outbound, 1000.0, 300.0, frontier)


def body(turns: Sequence[dict[str, object]] = TURNS, **members: object) -> bytes:
    return anthropic_body(turns, **{"system": "S", "tools": [{"name": "t"}], **members})
