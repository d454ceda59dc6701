"""The demo's conversation: what its agent says and what its tools answer.

Rules:
- Everything is fixed, so that the demo tells the same story every time.
- The agent is an ordinary client of the Messages API; it knows nothing of the sidecar.
"""

from dataclasses import dataclass
from typing import Any

MODEL = "demo-agent"
WINDOW_TOKENS = 9_000
TOOLS: list[dict[str, Any]] = [
    {
        "name": "read_log",
        "description": "Return the newest lines of a service's log.",
        "input_schema": {
            "type": "object",
            "properties": {"service": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["service"],
        },
    },
    {
        "name": "run_query",
        "description": "Run a read-only query against the orders database.",
        "input_schema": {
            "type": "object",
            "properties": {"sql": {"type": "string"}},
            "required": ["sql"],
        },
    },
]
SYSTEM = (
    "You are the on-call assistant of a small team that runs an order service, a "
    "payments service and the orders database. Look into logs before you guess. Say "
    "what you found, what it means and what to do next, in that order. Ask before you "
    "propose anything that changes data. " * 6
)


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the user: what is asked, and what the tools give, if any is called.

    `system_note` is what a careless client writes in front of its system prompt.
    Before the question somebody remembers `remembers`, or forgets `FACT`.
    """

    text: str
    tool: str | None = None
    result: str = ""
    answer: str = "Understood."
    system_note: str = ""
    remark: str = ""
    remembers: str = ""
    forgets: bool = False


FACT = "pool-freeze"
"""The id of the one record that is remembered and forgotten while the agent talks."""


def _log(service: str, count: int) -> str:
    lines = [
        f"{8 + i // 60:02d}:{i % 60:02d}:07 {service} order={41_000 + i * 7} "
        f"attempt={i % 4} status={'declined' if i % 5 == 0 else 'retry'} "
        f"wait={(2, 10, 60, 0)[i % 4]}s pool={20 - i % 3}/20"
        for i in range(count)
    ]
    return "\n".join(lines)


STEPS: tuple[Step, ...] = (
    Step(
        "Orders are slow since this morning. What does our retry policy for payments "
        "say?",
        answer="Three retries with waits of 2, 10 and 60 seconds; declines are final.",
    ),
    Step(
        "Look at the payments log, please.",
        tool="read_log",
        result=_log("payments", 70),
        answer="Many retries, and the pool is nearly full in each line.",
    ),
    Step(
        "Could the connection pool of the database be the reason?",
        tool="run_query",
        result="state | count\nidle in transaction | 18\nactive | 2",
        answer="Yes: 18 of 20 connections are idle in a transaction.",
    ),
    Step(
        "What happens to requests when all connections are busy?",
        answer="They wait for 3 seconds and then fail with pool_exhausted.",
    ),
    Step(
        "May I make the connection pool larger today?",
        answer="Not before Thursday.",
        remembers="Until the database has moved on Thursday, nobody may change the "
        "size of the connection pool.",
    ),
    Step(
        "Thanks. How do we roll back the last release?",
        answer="Promote the previous image; the database is never rolled back.",
        system_note="Current time: 2026-11-30 10:42:07. ",
        remark="the client writes the time into its system prompt",
    ),
    Step(
        "And who may release on a Friday?",
        answer="Nobody.",
        remark="the client leaves the time out again",
    ),
    Step(
        "Get me the whole payments log of the day, I want to see the declines.",
        tool="read_log",
        result=_log("payments", 190),
        answer="Every fifth attempt is a decline; those are final.",
    ),
    Step("Then they do not hold a connection?", answer="No.", forgets=True),
    Step(
        "Compare it with the orders log.",
        tool="read_log",
        result=_log("orders", 150),
        answer="Orders fail three seconds after the pool is full.",
        remark="the history outgrows the model's window",
    ),
    Step(
        "How much of the error budget may we still spend this month?",
        answer="43 minutes a month; releases stop when half of it is spent.",
    ),
    Step(
        "Write the hand-over note in one sentence.",
        answer="Payments retries held transactions open and exhausted the pool.",
    ),
)
