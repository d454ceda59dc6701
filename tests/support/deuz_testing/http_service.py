"""A service behind a source of type `http`: the contract, as a team would serve it.

Rules:
- Each scope has its own records; a question sees those of its scope and no others.
- The service takes nobody's word: what it is asked must be valid by the schema.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from jsonschema import Draft202012Validator

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[3] / "docs/schemas/http-source.json").read_text()
)


def validator(part: str) -> Draft202012Validator:
    """Return what checks a `question`, an `answer` or a `record`."""
    return Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/{part}"})


@dataclass
class Service:
    """Records by scope, and all that was asked."""

    records: Mapping[str, Sequence[Mapping[str, Any]]]
    token: str = ""
    url: str = ""
    asked: list[Any] = field(default_factory=list)
    answered: list[Any] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        if self.token and request.headers.get("Authorization") != self.token:
            return web.Response(status=401, text="who are you?")
        question = await request.json()
        validator("question").validate(question)
        self.asked.append(question)
        words = set(question["query"].lower().split())
        found = [
            record
            for record in self.records.get(question["scope"], ())
            if words & set(record["text"].lower().split())
        ]
        self.answered.append({"records": found[: question["limit"]]})
        return web.json_response(self.answered[-1])


@asynccontextmanager
async def running_service(
    records: Mapping[str, Sequence[Mapping[str, Any]]], *, token: str = ""
) -> AsyncIterator[Service]:
    """Serve these records on a port of their own."""
    service = Service(records, token)
    app = web.Application()
    app.router.add_post("/query", service.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/query"
    try:
        yield service
    finally:
        await runner.cleanup()
