"""The provider's mind: judges a request, looks up its cache, completes its answer.

Rules:
- Order of judgement: held state, rules, window; then the script or the model answers.
- No sockets here and no waiting; the clock's reading is an argument.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deuz_proxy.demo.provider.answers import count_output, count_reasoning, fit_reply
from deuz_proxy.demo.provider.cache import BreakpointCache, CacheUse, PrefixCache
from deuz_proxy.demo.provider.exchange import (
    ANTHROPIC,
    OLLAMA,
    RESPONSES,
    Ask,
    Finished,
    Json,
    ProviderRequest,
    Refusal,
    Reply,
    TokenCount,
)
from deuz_proxy.demo.provider.fields import compact, mapping, word
from deuz_proxy.demo.provider.prompt_ollama import fit_ollama, window_of
from deuz_proxy.demo.provider.prompt_responses import items_of
from deuz_proxy.demo.provider.shape_responses import output_items
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.window import check_window
from deuz_proxy.demo.provider.wires import WIRES, check_rules

MAX_HELD_RESPONSES = 1_000
MAX_HELD_ITEMS = 10_000
_REFERENCE = "item_reference"


@dataclass(frozen=True, slots=True)
class Settings:
    """How this provider differs from the usual one."""

    window_tokens: int = 200_000
    model_windows: Mapping[str, int] = field(default_factory=dict)
    minimum_cached_tokens: int = 1_024
    cache_step_tokens: int = 128
    alternate: bool = False

    def window_of(self, model: str) -> int:
        """Return the window of a model."""
        return self.model_windows.get(model, self.window_tokens)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request that will be answered."""

    request: ProviderRequest
    ask: Ask
    tokens: int
    use: CacheUse


class Engine:
    """Holds what outlives a request: caches and stored responses."""

    def __init__(self, settings: Settings, signer: Signer) -> None:
        self._settings = settings
        self._signer = signer
        minimum = settings.minimum_cached_tokens
        self._breakpoints = BreakpointCache(minimum_tokens=minimum)
        self._prefixes = PrefixCache(
            minimum_tokens=minimum, step_tokens=settings.cache_step_tokens
        )
        self._held: dict[tuple[str, str], tuple[Json, ...]] = {}
        self._items: dict[tuple[str, str], Json] = {}

    def recall_held(self, request: ProviderRequest) -> ProviderRequest | Refusal:
        """Return the request with what is held for it: a history, items by their id."""
        history = self.recall_history(request)
        if isinstance(history, Refusal):
            return history
        asked = request.payload.get("input")
        if request.wire != RESPONSES or not isinstance(asked, list):
            return replace(request, history=history)
        items = [self._recall_item(request.credential, item) for item in asked]
        refusal = next((item for item in items if isinstance(item, Refusal)), None)
        if refusal is not None:
            return refusal
        payload = {**request.payload, "input": items}
        return replace(request, history=history, payload=payload)

    def recall_history(self, request: ProviderRequest) -> tuple[Json, ...] | Refusal:
        """Return the items held for `previous_response_id`."""
        previous = request.payload.get("previous_response_id")
        if request.wire != RESPONSES or previous is None:
            return ()
        held = self._held.get((request.credential, word(previous)))
        if held is not None:
            return held
        return Refusal(
            "unknown_previous",
            f"Previous response with id '{previous}' not found.",
            code="previous_response_not_found",
            param="previous_response_id",
        )

    def _recall_item(self, credential: str, item: object) -> object | Refusal:
        if mapping(item).get("type") != _REFERENCE:
            return item
        item_id = word(mapping(item).get("id"))
        return self._items.get((credential, item_id)) or Refusal(
            "unknown_item",
            f"Item with id '{item_id}' not found. Items are not persisted when `store` "
            "is set to false. Try again with `store` set to true, or remove this item "
            "from your input.",
            status=404,
            param="input",
        )

    def judge(self, request: ProviderRequest, now: float) -> Accepted | Refusal:
        """Return the first refusal, or what is known of an acceptable request."""
        refusal = check_rules(request, self._signer, alternate=self._settings.alternate)
        if refusal is not None:
            return refusal
        fitted = self._fit(request)
        if isinstance(fitted, Refusal):
            return fitted
        request = fitted
        wire = WIRES[request.wire]
        ask = wire.ask(request)
        blocks = wire.render(request)
        tokens = sum(block.tokens for block in blocks)
        cache = self._breakpoints if request.wire == ANTHROPIC else self._prefixes
        parameters = [request.wire, request.credential, request.model]
        scope = compact([*parameters, wire.scope(request.payload)])
        use = cache.look_up(scope.encode("utf-8", "surrogatepass"), blocks, now)
        return Accepted(request, ask, tokens, use)

    def _fit(self, request: ProviderRequest) -> ProviderRequest | Refusal:
        """Return the request if it fits the window, cut to fit where that is usual."""
        limit = self._settings.window_of(request.model)
        if request.wire in OLLAMA:
            return fit_ollama(request, limit)
        wire = WIRES[request.wire]
        is_generating = request.purpose == "generate"
        overflow = check_window(
            request,
            tokens=sum(block.tokens for block in wire.render(request)),
            output=wire.ask(request).max_output_tokens if is_generating else None,
            limit=limit,
        )
        return request if overflow is None else overflow

    def finish(
        self, accepted: Accepted, reply: Reply, *, created: int, serial: str
    ) -> Finished:
        """Fit the reply, count it, and remember what the provider keeps."""
        request, use = accepted.request, accepted.use
        window = self._settings.window_of(request.model)
        if request.wire in OLLAMA:
            window = window_of(request, window)
        fitted = fit_reply(
            reply, limit=accepted.ask.max_output_tokens, room=window - accepted.tokens
        )
        counts = TokenCount(
            uncached=accepted.tokens - use.read - use.write_short - use.write_long,
            cache_read=use.read,
            cache_write_short=use.write_short,
            cache_write_long=use.write_long,
            output=count_output(fitted),
            reasoning=count_reasoning(fitted),
        )
        step = self._settings.cache_step_tokens
        finished = Finished(
            request, fitted, counts, created, serial, self._signer, step
        )
        use.commit()
        self._hold(finished)
        return finished

    def _hold(self, finished: Finished) -> None:
        request = finished.request
        if request.wire != RESPONSES or request.payload.get("store") is False:
            return
        items = (*request.history, *items_of(request.payload.get("input")))
        output = output_items(finished)
        key = (request.credential, f"resp_{finished.serial}")
        self._held[key] = (*items, *output)
        self._items.update({(request.credential, item["id"]): item for item in output})
        if len(self._held) > MAX_HELD_RESPONSES:
            del self._held[next(iter(self._held))]
        while len(self._items) > MAX_HELD_ITEMS:
            del self._items[next(iter(self._items))]
