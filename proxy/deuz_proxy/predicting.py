"""What compiling would have made of a request that was only tried.

Rules:
- A tried prefix is compared with those tried before, as a sent one with those sent: the
  prediction is computed from bytes, not from intent.
- It is told of every request of a mode `shadow`, a held-out one too, and of no other.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from deuz_compiler import Baseline, Usage, Verdict, predict_read
from deuz_proxy.calls import Call, Compiled
from deuz_proxy.observe.events import Prediction


def tried_baselines(baselines: Sequence[Baseline]) -> tuple[Baseline, ...]:
    """Return the baselines as if all that was tried had been sent."""
    return tuple(
        replace(each, plain=each.inbound, outbound=each.tried)
        for each in baselines
        if each.tried is not None
    )


def predict_call(
    call: Call, compiled: Compiled, usage: Usage | None
) -> Prediction | None:
    """Return what would have become of the prefix and of the cache.

    None if nothing was tried, or the request is none of its conversation's.
    """
    tried, verdict, surface = compiled.tried, compiled.tried_verdict, compiled.surface
    plain, sighting, envelope = compiled.inbound, compiled.sighting, call.envelope
    if tried is None or verdict is None or surface is None:
        return None
    if plain is None or sighting is None or envelope is None:
        return None
    if sighting.is_side_call or call.is_apart:
        return None
    is_ours = verdict.owner == "sidecar"
    return Prediction(
        prefix=_fate(verdict),
        verdict=verdict.verdict,
        cause=verdict.cause,
        added_tokens=max(0, tried.total_tokens - plain.total_tokens),
        input_tokens=tried.total_tokens,
        cache_read_tokens=predict_read(
            plain,
            tried,
            ours=surface.ours(envelope.lead),
            usage=usage,
            broken_at=verdict.index if is_ours else None,
        ),
    )


def _fate(verdict: Verdict) -> str:
    if verdict.verdict != "broken":
        return "kept"
    return "broken_by_sidecar" if verdict.owner == "sidecar" else "broken_by_client"
