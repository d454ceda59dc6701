"""The fake provider's mind behind the line, without sockets: rules, window, cache.

Rules:
- What it was sent stands in `ModelledUpstreams.log`, with what became of it.
- It answers at once: a history of hundreds of requests costs milliseconds each.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from deuz_proxy.calls import Body, Headers
from deuz_proxy.demo.provider import ProviderRequest, Refusal, Reply, TokenCount
from deuz_proxy.demo.provider.answers import compose_answer
from deuz_proxy.demo.provider.engine import Engine, Settings
from deuz_proxy.demo.provider.fields import compact, word
from deuz_proxy.demo.provider.routing import find_credential, find_route
from deuz_proxy.demo.provider.signing import Signer
from deuz_proxy.demo.provider.wires import WIRES, spell_error
from deuz_testing.scripted import Said, ScriptedReply

Script = Callable[[ProviderRequest], Reply | Refusal | None]


@dataclass
class Logged:
    """One request as it was received, and the rule it broke or its token counts."""

    wire: str
    body: bytes
    rule: str | None = None
    usage: TokenCount | None = None


@dataclass
class ModelledUpstreams:
    """An `Upstreams` port that is the fake provider itself.

    Its cache counts from the first token on and in single ones, so that a byte that
    changed shows; `script` may answer in the model's place.
    """

    clock: Callable[[], float]
    window_tokens: int = 1_000_000
    script: Script | None = None
    log: list[Logged] = field(default_factory=list)
    _engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(
            window_tokens=self.window_tokens,
            minimum_cached_tokens=0,
            cache_step_tokens=1,
        )
        self._engine = Engine(settings, Signer(b"modelled"))

    async def send(
        self,
        *,
        method: str,
        base: str,
        path: str,
        headers: Headers,
        body: Body | AsyncIterator[bytes] | None,
        upgrade: bytes | None = None,
        inform: object = None,
        letterhead: object = None,
    ) -> ScriptedReply:
        assert isinstance(body, Body)
        body = bytes(body)
        lines = {k.decode().lower(): v.decode() for k, v in headers}
        route = find_route(method, path, lines)
        payload = json.loads(body)
        asked = ProviderRequest(
            wire=route.wire,
            model=word(payload.get("model")),
            is_streamed=False,
            payload=payload,
            body=body,
            headers=lines,
            credential=find_credential(lines, {}),
        )
        self.log.append(Logged(route.wire, body))
        return ScriptedReply(self._answer(asked, self.log[-1]))

    def _answer(self, asked: ProviderRequest, logged: Logged) -> Said:
        now, serial = self.clock(), f"m{len(self.log)}"
        judged = self._engine.judge(asked, now)
        if isinstance(judged, Refusal):
            return _refused(judged, logged, serial)
        answer = self.script(asked) if self.script else None
        if isinstance(answer, Refusal):
            return _refused(answer, logged, serial)
        composed = compose_answer(judged.request, judged.ask)
        reply = answer or composed
        assert isinstance(reply, Reply)
        finished = self._engine.finish(judged, reply, created=int(now), serial=serial)
        logged.usage = finished.counts
        return Said(200, (compact(WIRES[asked.wire].spell(finished)).encode(),))


def _refused(refusal: Refusal, logged: Logged, serial: str) -> Said:
    logged.rule = refusal.rule
    error = spell_error(logged.wire, refusal, serial)
    return Said(refusal.status, (compact(error).encode(),))
