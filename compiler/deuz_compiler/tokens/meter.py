"""What a whole request costs, and what a conversation costs by now.

Rules:
- A snapshot is detached and immutable: the price of each turn in order, and of what
  stands beside them. The surface is the sum of its turns.
- Real usage is believed for the very same header (model, system, tools, schema) and
  only if it is not below the estimate; what changed since counts with its sign.
- Nothing is ever below nothing. After a shorter history the projection falls at once.
- A share of a breakdown says what a request is made of. It is no bill and need not add
  up to what the provider reports.
"""

import msgspec
import xxhash

from deuz_compiler.tokens.calibrate import NEUTRAL
from deuz_compiler.tokens.estimator import Estimator
from deuz_compiler.tokens.framing import (
    TOOL_FRAME_TOKENS,
    found_tools,
    frame_tokens,
    loaded_tools,
)
from deuz_compiler.tokens.memo import Counted, TokenMemo, count_texts

USAGE, ESTIMATED, NONE = "usage", "estimated", "none"
_ABSENT = frozenset({b"", b"null", b'""', b"[]", b"{}"})


class RequestParts(msgspec.Struct, frozen=True, gc=False):
    """The JSON texts of a request, as they stand in the body; b"" for what it lacks."""

    wire: str
    model: str = ""
    turns: tuple[bytes, ...] = ()
    system: bytes = b""
    tools: bytes = b""
    output_schema: bytes = b""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The price of a request; `header` stands for all that is not a turn."""

    header: bytes = b""
    model: str = ""
    system_tokens: int = 0
    tools_tokens: int = 0
    schema_tokens: int = 0
    frame_tokens: int = 0
    nodes: tuple[Counted, ...] = ()

    @property
    def fixed_tokens(self) -> int:
        """The price of what no compaction can shrink."""
        beside = self.system_tokens + self.tools_tokens
        return beside + self.schema_tokens + self.frame_tokens

    @property
    def surface_tokens(self) -> int:
        """The price of the turns."""
        return sum(node.tokens for node in self.nodes)

    @property
    def total_tokens(self) -> int:
        """The price of the whole request."""
        return self.fixed_tokens + self.surface_tokens


class Anchor(msgspec.Struct, frozen=True, gc=False):
    """What one answer taught of a conversation: request and answer together.

    `sample_tokens` is the input that the provider reported, None if it did not;
    `sampled_tokens` and `surface_tokens` are estimates of the turns then, without and
    with the answer.
    """

    header: bytes
    model: str
    kind: str
    tokens: int
    surface_tokens: int
    sampled_tokens: int
    sample_tokens: int | None = None


class Measurement(msgspec.Struct, frozen=True, gc=False):
    """What a conversation costs now; what is not known is None."""

    kind: str
    baseline_tokens: int
    delta_tokens: int
    total_tokens: int
    surface_tokens: int
    nodes: tuple[Counted, ...]
    pressure_tokens: int | None = None
    projected_tokens: int | None = None
    window_tokens: int | None = None


def request_tokens(
    parts: RequestParts,
    estimator: Estimator,
    *,
    memo: TokenMemo | None = None,
    frame: int = TOOL_FRAME_TOKENS,
) -> tuple[Snapshot, TokenMemo]:
    """Return the price of a request, and the memo for the next one."""
    tools = _present(parts.tools)
    loaded = loaded_tools(tools, found_tools(parts.turns)) if tools else ()
    beside = (_present(parts.system), _present(parts.output_schema))
    texts = (*beside, *loaded, *parts.turns)
    counted, memo = count_texts(
        texts,
        estimator.count_json,
        estimator=estimator.name,
        memo=memo or TokenMemo(),
    )
    first_turn = len(texts) - len(parts.turns)
    snapshot = Snapshot(
        header=_header(parts.model, *beside, tools),
        model=parts.model,
        system_tokens=counted[0].tokens,
        schema_tokens=counted[1].tokens,
        tools_tokens=sum(tool.tokens for tool in counted[2:first_turn]),
        frame_tokens=frame_tokens(parts.wire, has_tools=bool(tools), frame=frame),
        nodes=counted[first_turn:],
    )
    return snapshot, memo


def anchor_of(
    sent: Snapshot,
    *,
    answer_tokens: int,
    reported: tuple[int, int] | None = None,
    factor_permille: int = NEUTRAL,
) -> Anchor:
    """Return what an answer teaches; it replaces what an earlier one taught.

    `answer_tokens` estimates the answer as the next history will hold it; `reported` is
    the provider's input, cached tokens included, and output, reasoning included;
    `factor_permille` scales estimates to the model.
    """
    surface = sent.surface_tokens + answer_tokens
    estimate = _scaled(sent.fixed_tokens + surface, factor_permille)
    used = sum(reported) if reported else 0
    is_trusted = reported is not None and used >= estimate
    return Anchor(
        header=sent.header,
        model=sent.model,
        kind=USAGE if is_trusted else ESTIMATED,
        tokens=used if is_trusted else estimate,
        surface_tokens=surface,
        sampled_tokens=sent.surface_tokens,
        sample_tokens=reported[0] if reported else None,
    )


def measure(
    now: Snapshot,
    anchor: Anchor | None = None,
    *,
    window_tokens: int | None = None,
    factor_permille: int = NEUTRAL,
) -> Measurement:
    """Return what the conversation costs, from the last answer on if that still holds.

    Another model's sample says nothing of this one's window, so there is none then.
    """
    surface = now.surface_tokens
    kind = ESTIMATED if now.total_tokens else NONE
    baseline, delta = _scaled(now.total_tokens, factor_permille), 0
    if anchor is not None and anchor.header == now.header:
        kind, baseline = anchor.kind, anchor.tokens
        delta = _scaled(surface - anchor.surface_tokens, factor_permille)
    sample = anchor.sample_tokens if anchor and anchor.model == now.model else None
    moved = _scaled(surface - anchor.sampled_tokens, factor_permille) if anchor else 0
    return Measurement(
        kind=kind,
        baseline_tokens=baseline,
        delta_tokens=delta,
        total_tokens=max(0, baseline + delta),
        surface_tokens=surface,
        nodes=now.nodes,
        pressure_tokens=sample,
        projected_tokens=None if sample is None else max(0, sample + moved),
        window_tokens=window_tokens,
    )


def _present(raw: bytes) -> bytes:
    """Return the text, b"" where it says as much as none."""
    return b"" if raw.strip() in _ABSENT else raw


def _header(*parts: str | bytes) -> bytes:
    """Return 16 bytes that are equal for equal parts."""
    return xxhash.xxh3_128_digest(msgspec.json.encode(parts))


def _scaled(tokens: int, factor_permille: int) -> int:
    return -(-tokens * factor_permille // NEUTRAL)
