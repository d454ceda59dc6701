"""Bedrock as its own client signs and reads it, through a route that compiles.

Rules:
- The upstream here checks the signature as AWS does: over method, path, headers and
  every byte of the body. The client signs for the upstream's own host, as behind a
  transparent proxy.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.eventstream import EventStreamBuffer
from yarl import URL

from deuz_compiler import Usage
from deuz_proxy.config.load import parse_config
from deuz_proxy.config.model import Config
from deuz_testing.aws_frames import chunk, event, exception
from deuz_testing.line import Line, running_line

pytestmark = pytest.mark.e2e

# Those of the examples in the documentation of AWS.
KEYS = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
MODEL = "anthropic.claude-sonnet-4-5-20250929-v1%3A0"
COUNTS = {"inputTokens": 10, "outputTokens": 5, "cacheReadInputTokens": 20}
USAGE = Usage(input_uncached=10, cache_read=20, output=5)
CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hello"}]}},
    "stopReason": "end_turn",
    "usage": COUNTS,
}
STREAM = [
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"delta": {"text": "Hello"}}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": COUNTS}),
]
INVOKED = {
    "id": "msg_1",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {
        "input_tokens": 10,
        "cache_read_input_tokens": 20,
        "output_tokens": 5,
    },
}
CHUNKS = [
    chunk({"type": "content_block_delta", "delta": {"text": "Hello"}}),
    chunk({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    chunk(
        {
            "type": "message_stop",
            "amazon-bedrock-invocationMetrics": {
                "inputTokenCount": 10,
                "outputTokenCount": 5,
                "cacheReadInputTokenCount": 20,
            },
        }
    ),
]
CALLS: dict[str, Any] = {
    "converse": CONVERSED,
    "converse-stream": STREAM,
    "invoke": INVOKED,
    "invoke-with-response-stream": CHUNKS,
}
CONFIG = """
upstreams:
  bedrock: {{url: "{url}", wire: bedrock}}
routes:
  - {{path: "/model/*", upstream: bedrock, mode: compile}}
  - {{path: /v1/messages, upstream: bedrock, mode: compile}}
context:
  refresh: {{deadline_ms: 30000}}
  sources:
    - {{id: rules, type: static, records: [{{id: r1, text: "Be brief."}}]}}
"""


@dataclass
class Aws:
    """An upstream that refuses what is not signed as it arrived."""

    answer: Any = None
    status: int = 200
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.bodies.append(body)
        if not is_signed(request, body):
            return web.json_response({"message": "signature mismatch"}, status=403)
        if isinstance(self.answer, dict):
            return web.json_response(self.answer, status=self.status)
        kind = {"Content-Type": "application/vnd.amazon.eventstream"}
        response = web.StreamResponse(headers=kind)
        await response.prepare(request)
        for frame in self.answer:
            await response.write(frame)
        await response.write_eof()
        return response


def is_signed(request: web.BaseRequest, body: bytes) -> bool:
    """Sign what arrived once more, with the same headers and time, and compare."""
    stated = request.headers["Authorization"]
    names = stated.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    url = f"http://{request.headers['Host']}{request.raw_path}"
    headers = {name: request.headers[name] for name in names if name != "host"}
    again = AWSRequest(method=request.method, url=url, data=body, headers=headers)
    again.context["timestamp"] = request.headers["X-Amz-Date"]
    signer = SigV4Auth(KEYS, "bedrock", "eu-west-1")
    text = signer.string_to_sign(again, signer.canonical_request(again))
    is_whole = hashlib.sha256(body).hexdigest() == headers["x-amz-content-sha256"]
    return is_whole and stated.endswith(f"Signature={signer.signature(text, again)}")


def signed(url: str, body: bytes) -> dict[str, str]:
    """Return the headers that botocore signs a request with."""
    headers = {
        "Content-Type": "application/json",
        "X-Amz-Content-SHA256": hashlib.sha256(body).hexdigest(),
    }
    request = AWSRequest(method="POST", url=url, data=body, headers=headers)
    SigV4Auth(KEYS, "bedrock", "eu-west-1").add_auth(request)
    return dict(request.headers.items())


@asynccontextmanager
async def running_aws(answer: Any, status: int = 200) -> AsyncIterator[Aws]:
    aws = Aws(answer, status)
    runner = web.ServerRunner(web.Server(aws.serve, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    aws.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield aws
    finally:
        await runner.cleanup()


def config(url: str) -> Config:
    text = CONFIG.format(url=url)
    return parse_config(text, name="test", folder=Path(), environ={})


async def post(line: Line, aws: Aws, path: str, body: bytes) -> tuple[int, bytes]:
    """Send what was signed for the upstream to the sidecar instead."""
    headers = signed(aws.url + path, body)
    # The client of these tests would decode what is signed in the path.
    target = URL(f"{line.url}/@bedrock{path}", encoded=True)
    async with (
        aiohttp.ClientSession() as session,
        session.post(target, data=body, headers=headers) as got,
    ):
        return got.status, await got.read()


BODY = json.dumps(
    {"messages": [{"role": "user", "content": [{"text": "Grüße, why?"}]}], "n": 1.0},
    indent=1,
    ensure_ascii=False,
).encode()


@pytest.mark.parametrize("call", CALLS)
async def test_a_signed_body_arrives_byte_for_byte_and_its_answer_is_told(
    call: str,
) -> None:
    path = f"/model/{MODEL}/{call}"
    async with (
        running_aws(CALLS[call]) as aws,
        running_line(config(aws.url)) as line,
    ):
        status, answer = await post(line, aws, path, BODY)

    assert status == 200, answer
    assert aws.bodies == [BODY]
    told = line.told.last
    assert (told.usage, told.finish_reason) == (USAGE, "end_turn")
    assert (told.passthrough, told.outcome) == ("signed", "ok")
    assert told.wire == f"bedrock_{call.split('-', maxsplit=1)[0]}"
    assert told.model == "anthropic.claude-sonnet-4-5-20250929-v1:0"


@pytest.mark.parametrize("call", ["converse-stream", "invoke-with-response-stream"])
async def test_the_frames_of_a_stream_are_those_that_were_sent(call: str) -> None:
    async with (
        running_aws(CALLS[call]) as aws,
        running_line(config(aws.url)) as line,
    ):
        _, answer = await post(line, aws, f"/model/{MODEL}/{call}", BODY)

    buffer = EventStreamBuffer()
    buffer.add_data(answer)
    assert answer == b"".join(CALLS[call])
    assert len(list(buffer)) == len(CALLS[call])


TOO_LONG = {"message": "prompt is too long: 286028 tokens > 200000 maximum"}


@pytest.mark.parametrize("call", CALLS)
async def test_an_overflow_is_told_and_reaches_the_client_as_it_was(call: str) -> None:
    async with (
        running_aws(TOO_LONG, 400) as aws,
        running_line(config(aws.url)) as line,
    ):
        status, answer = await post(line, aws, f"/model/{MODEL}/{call}", BODY)

    assert (status, json.loads(answer)) == (400, TOO_LONG)
    (overflow,) = line.told.last.overflows
    assert (overflow.stage, overflow.outcome) == ("rejected", "observed")
    assert (overflow.limit_tokens, overflow.requested_tokens) == (200_000, 286_028)
    assert len(aws.bodies) == 1


async def test_an_overflow_in_the_middle_of_frames_is_told() -> None:
    frames = [STREAM[0], exception("validationException", TOO_LONG)]
    async with (
        running_aws(frames) as aws,
        running_line(config(aws.url)) as line,
    ):
        await post(line, aws, f"/model/{MODEL}/converse-stream", BODY)

    (overflow,) = line.told.last.overflows
    assert (overflow.stage, overflow.limit_tokens) == ("in_stream", 200_000)


async def test_a_signed_body_of_another_wire_is_judged_and_not_touched() -> None:
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"why?"}]}'
    async with (
        running_aws(INVOKED) as aws,
        running_line(config(aws.url)) as line,
    ):
        status, _ = await post(line, aws, "/v1/messages", body)

    assert (status, aws.bodies) == (200, [body])
    told = line.told.last
    assert (told.passthrough, told.mode) == ("signed", "observe")
    assert told.verdict is not None
    assert told.verdict.verdict == "first"


async def test_the_upstream_of_these_tests_refuses_a_body_that_was_touched() -> None:
    async with running_aws(CONVERSED) as aws, aiohttp.ClientSession() as session:
        url = f"{aws.url}/model/m/converse"
        headers = signed(url, BODY)
        async with session.post(url, data=BODY + b" ", headers=headers) as answer:
            assert answer.status == 403
