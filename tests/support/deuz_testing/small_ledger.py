"""A sidecar whose ledger is small, through which one conversation is sent at will."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from deuz_compiler import Candidate
from deuz_proxy.config.ledger import LedgerConfig
from deuz_proxy.observe.events import RequestFinished
from deuz_proxy.ports import Query
from deuz_proxy.runtime import Runtime
from deuz_proxy.serving import new_id
from deuz_proxy.stores.build import open_stores
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.conversation import (
    anthropic_answer,
    client_gets,
    conversation,
    request,
    upstream_gets,
    upstream_says,
)
from deuz_testing.ledger_suite import ManualClock
from deuz_testing.line import FixedSource, Told, make_config, make_runtime

OK = anthropic_answer()


@dataclass
class Answering(FixedSource):
    """A source with a record of its own for each question."""

    async def find(self, query: Query) -> Sequence[Candidate]:
        return (
            Candidate(
                source="rules",
                kind="memory",
                record_id=query.text.replace(" ", "-"),
                text=f"To {query.text}: so.",
            ),
        )


class Small:
    """A sidecar whose ledger is small, and a clock that says how old entries are."""

    def __init__(self, told: Told, stack: AsyncExitStack, url: str) -> None:
        self.told, self.stack, self.url = told, stack, url
        self.clock = ManualClock()
        self.runtime: Runtime

    async def open(self, mode: str = "compile", **bounds: Any) -> "Small":
        config = LedgerConfig.model_validate(
            {"url": self.url, "deadline_ms": 10_000, **bounds}
        )
        stores = await open_stores(
            config, self.stack, new_id=new_id, tell=lambda _: None, clock=self.clock
        )
        self.runtime = make_runtime(
            make_config(mode=mode),
            self.told,
            sources=[Answering()],
            ledger=stores.ledger,
            tracker=stores.tracker,
            shared=stores.shared,
        )
        return self

    def turn_to(self, mode: str) -> None:
        """Take another mode, as a reload does; what is known stays."""
        runtime = self.runtime
        self.runtime = make_runtime(
            make_config(mode=mode),
            self.told,
            sources=runtime.sources,
            ledger=runtime.ledger,
            tracker=runtime.tracker,
            shared=runtime.shared,
        )

    async def ask(self, questions: int, *, branch: str = "") -> RequestFinished:
        """Send the conversation up to its newest question; return what is told.

        A branch has another answer to the question before.
        """
        turns: list[Any] = []
        for number in range(questions):
            turns += [user(f"question {number}"), assistant(f"answer {number}")]
        if branch:
            turns[-3] = assistant(branch)
        talk = conversation(self.runtime) >> request(anthropic_body(turns[:-1]))
        talk <<= upstream_gets(lambda asked: True)
        await (talk >> upstream_says(OK) << client_gets(OK.chunks[0]))
        return self.told.last
