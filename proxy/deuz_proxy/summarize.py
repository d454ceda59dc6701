"""The one extra call that turns old turns into a summary.

Rules:
- It is sent with the client's own credential and headers, to the same place; its usage
  is counted as the sidecar's, apart from the client's.
- No answer but a whole, visible, smaller one is taken; without one the turns stay.
- It has a time limit of its own and is never tried twice.
"""

import asyncio

from deuz_compiler import (
    Fold,
    FoldRun,
    ReplyFacts,
    accept_summary,
    ask_once,
    escape_json_string,
    estimate_text,
    open_meter,
    render_summary,
    summary_request_text,
)
from deuz_proxy.calls import Call, Headers, Reply
from deuz_proxy.config.endpoints import path_of_one_answer
from deuz_proxy.errors import SidecarError
from deuz_proxy.observe.events import FaultCaught, UpstreamCall
from deuz_proxy.observe.inflate import Decoded, content_codings
from deuz_proxy.observe.watch import Watch
from deuz_proxy.runtime import Runtime

_SECONDS = 180.0
_OUTPUT_TOKENS = 2048
_MOST_BYTES = 2_097_152
# The request must fit where the conversation did not: most of the window, at the
# densest text there is a character a token.
_WINDOW_PERCENT = 60
_DEFAULT_CHARACTERS = 60_000
_FIRST_BAD = 400
# A decision about coding or length belongs to the client's request, not to ours.
_NOT_OURS = frozenset({b"content-encoding", b"accept-encoding", b"content-type"})


async def summarize_fold(
    call: Call,
    plan: FoldRun,
    runtime: Runtime,
    watch: Watch,
    *,
    fit_tokens: int | None,
) -> Fold | None:
    """Ask for a summary of the planned turns; None without a good one."""
    text = summary_request_text(
        plan.lines, plan.previous, max_chars=_room_characters(fit_tokens)
    )
    if call.envelope is None or not text:
        return None
    model = runtime.config.overflow.summarize.model or call.envelope.model
    started_at, start = runtime.clock(), runtime.monotonic()
    status, facts, error = None, ReplyFacts(), None
    try:
        with watch.waiting():
            async with asyncio.timeout(_SECONDS):
                status, facts = await _ask(call, model, text, runtime)
    except TimeoutError:
        error = "timeout"
    except SidecarError as fault:
        error = fault.code
    made = UpstreamCall(
        started_at,
        runtime.monotonic() - start,
        status,
        error,
        purpose="summarize",
        model=model,
        usage=facts.usage,
    )
    watch.calls.append(made)
    is_answered = error is None and status is not None and status < _FIRST_BAD
    return _accepted(call, plan, facts, runtime) if is_answered else None


async def _ask(
    call: Call, model: str, text: str, runtime: Runtime
) -> tuple[int, ReplyFacts]:
    if call.envelope is None:
        raise ValueError("a request that is not understood has no summary")
    body = ask_once(call.envelope, model=model, text=text, output_tokens=_OUTPUT_TOKENS)
    reply = await runtime.upstreams.send(
        method="POST",
        base=call.target.url,
        path=path_of_one_answer(call.target.path, model),
        headers=_headers(call.headers),
        body=body,
    )
    try:
        return reply.status, await _read(call.target.api, reply)
    finally:
        reply.close()


async def _read(api: str, reply: Reply) -> ReplyFacts:
    meter = open_meter(api, is_event_stream=False, keep_text=True)
    decode = Decoded(content_codings(reply.headers))
    length = 0
    async for chunk in reply.chunks():
        length += len(chunk)
        if length > _MOST_BYTES:
            break
        meter.feed(decode(chunk))
    return meter.close()


def _accepted(
    call: Call, plan: FoldRun, facts: ReplyFacts, runtime: Runtime
) -> Fold | None:
    text = facts.text or ""
    refusal = accept_summary(
        text,
        replaced_tokens=plan.replaced_tokens,
        finish_reason=facts.finish_reason,
        had_tool_call=facts.had_tool_call,
    )
    if refusal is not None:
        runtime.notice(FaultCaught(call.target.route, "recover", f"summary_{refusal}"))
        return None
    written = render_summary(text, plan.question)
    return Fold(
        turns=plan.last - plan.first + 1,
        text=escape_json_string(written),
        tokens=estimate_text(written),
        form=call.target.placement,
        kept=tuple([plan.last - turn for turn in plan.kept]),
        is_whole=plan.is_whole,
    )


def _headers(headers: Headers) -> Headers:
    """Return the client's lines for a plain JSON request of ours."""
    kept = [line for line in headers if line[0].lower() not in _NOT_OURS]
    return (*kept, (b"Content-Type", b"application/json"))


def _room_characters(fit_tokens: int | None) -> int:
    if fit_tokens is None:
        return _DEFAULT_CHARACTERS
    return min(4 * _DEFAULT_CHARACTERS, fit_tokens * _WINDOW_PERCENT // 100 * 3)
