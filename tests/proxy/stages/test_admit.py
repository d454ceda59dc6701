import gzip
from dataclasses import replace

import pytest

from deuz_proxy.calls import Letterhead
from deuz_proxy.errors import UnknownUpstream
from deuz_proxy.observe.events import Trace
from deuz_proxy.observe.trace import make_trace, sampler_named
from deuz_proxy.runtime import Runtime
from deuz_proxy.stages.admit import admit_call, judge_head
from deuz_testing.bodies import anthropic_body, chat_body, user
from deuz_testing.conversation import admitted
from deuz_testing.line import Told, make_config, make_runtime
from deuz_testing.scripted import GivenRequest

BODY = anthropic_body([user("q")])


@pytest.fixture
def runtime() -> Runtime:
    return make_runtime(make_config(), Told())


def given(*headers: tuple[bytes, bytes], target: str = "/v1/messages") -> GivenRequest:
    return GivenRequest(BODY, target, headers)


def root(
    runtime: Runtime,
    *headers: tuple[bytes, bytes],
    target: str = "/v1/messages",
) -> bytes:
    return admit_call(given(*headers, target=target), runtime).identity.root


async def test_an_understood_body_has_an_envelope_and_a_key_for_each_turn(
    runtime: Runtime,
) -> None:
    call = await admitted(runtime, given())

    assert call.envelope is not None
    assert len(call.chain) == 1
    assert call.body is BODY
    assert call.passthrough is None


@pytest.mark.parametrize(
    ("incoming", "reason"),
    [
        (GivenRequest(BODY, "/v1/files"), "unknown_endpoint"),
        (GivenRequest(BODY, "/v1/messages/count_tokens"), "unknown_endpoint"),
        (GivenRequest(BODY, "/v1/responses/input_tokens"), "unknown_endpoint"),
        (GivenRequest(BODY, "/v1/responses/compact"), "compaction"),
        (GivenRequest(BODY, "/v1/messages", method="PUT"), "unknown_endpoint"),
        (GivenRequest(b"", "/v1/messages"), "unknown_endpoint"),
        (
            GivenRequest(BODY, "/v1/messages", ((b"Content-Encoding", b"lzma"),)),
            "unknown_encoding",
        ),
        (GivenRequest(BODY, "/v1/messages", ((b"x-deuz-mode", b"off"),)), "off"),
    ],
)
async def test_what_may_not_be_looked_into_is_not_read(
    runtime: Runtime, incoming: GivenRequest, reason: str
) -> None:
    call = await admitted(runtime, incoming)

    assert (call.body, call.passthrough) == (None, reason)


def test_what_a_letterhead_decided_holds_for_the_next_request_under_it(
    runtime: Runtime,
) -> None:
    lines = ((b"x-api-key", b"k"), (b"session_id", b"s"), (b"content-length", b"9"))
    first = given(*lines)
    second = GivenRequest(BODY, headers=lines[:2], letterhead=first.letterhead)

    one, two = [admit_call(each, runtime) for each in (first, second)]

    assert two.identity is one.identity
    assert two.target is one.target
    assert two.headers == lines[:2]
    assert (two.id, two.incoming) != (one.id, one.incoming)


LINES = {
    b"Authorization": b"Bearer k",
    b"traceparent": b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01",
    b"X-Request-Id": b"1",
    b"x-deuz-scope": b"s",
    b"Session-Id": b"s",
    b"x-deuz-mode": b"observe",
    b"content-encoding": b"gzip",
    b"anthropic-version": b"2023-06-01",
}


@pytest.mark.parametrize("changed", LINES)
@pytest.mark.parametrize("value", [b"", b"off", b"AWS4-x", b"00-" + b"c" * 32])
def test_what_changed_lines_decide_is_decided_anew(
    runtime: Runtime, changed: bytes, value: bytes
) -> None:
    first = given(*LINES.items())
    admit_call(first, runtime)
    lines = tuple({**LINES, changed: value}.items())
    change = ((changed, LINES[changed]), (changed, value))
    like = Letterhead(first.letterhead, [change])

    admit_call(GivenRequest(BODY, headers=lines, letterhead=like), runtime)

    assert like.admission == judge_head(given(*lines), runtime.config)


def test_what_an_id_of_a_request_does_not_decide_is_taken_over(
    runtime: Runtime,
) -> None:
    first = given(*LINES.items())
    admit_call(first, runtime)
    change = ((b"X-Request-Id", b"1"), (b"X-Request-Id", b"2"))
    like = Letterhead(first.letterhead, [change])
    request = GivenRequest(BODY, headers=first.headers, letterhead=like)

    admit_call(request, runtime)

    assert like.admission is first.letterhead.admission


def test_what_another_config_decided_is_not_taken_over(runtime: Runtime) -> None:
    first = given(*LINES.items())
    admit_call(first, runtime)
    request = GivenRequest(
        BODY, headers=first.headers, letterhead=Letterhead(first.letterhead)
    )
    other = replace(runtime, config=runtime.config.model_copy(update={"routes": []}))

    assert admit_call(request, other).target.mode == "observe"


def test_another_config_decides_anew(runtime: Runtime) -> None:
    request = given((b"x-api-key", b"k"))
    other = replace(runtime, config=runtime.config.model_copy(update={"routes": []}))

    before, after = [admit_call(request, each) for each in (runtime, other)]

    assert (before.target.mode, after.target.mode) == ("compile", "observe")


async def test_a_compressed_body_is_understood_beside_what_came(
    runtime: Runtime,
) -> None:
    packed = gzip.compress(BODY)
    lines = ((b"Content-Encoding", b"gzip"),)

    call = await admitted(runtime, GivenRequest(packed, headers=lines))
    plain = await admitted(runtime, GivenRequest(BODY))

    assert (call.body, call.packed) == (BODY, packed)
    assert call.as_sent(call.body) is packed
    assert call.as_sent(b"spliced") == b"spliced"
    assert call.chain
    assert (call.passthrough, plain.as_sent(BODY)) == (None, BODY)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        # Without the time in them: workers that share the tests name them alike.
        (gzip.compress(BODY, mtime=0)[:-1], "damaged_encoding"),
        (gzip.compress(b" " * 3000, mtime=0), "decoded_too_large"),
        (gzip.compress(BODY[:-1], mtime=0), "not_json"),
    ],
)
async def test_a_compressed_body_that_is_not_understood_says_why(
    packed: bytes, reason: str
) -> None:
    config = make_config(more="limits: {max_body_bytes: 2048}")
    lines = ((b"Content-Encoding", b"gzip"),)

    call = await admitted(
        make_runtime(config, Told()), GivenRequest(packed, headers=lines)
    )

    assert (call.envelope, call.passthrough) == (None, reason)
    assert call.as_sent(call.body) is packed


async def test_a_stated_plain_encoding_is_no_encoding(runtime: Runtime) -> None:
    call = await admitted(runtime, given((b"content-encoding", b"Identity")))

    assert call.envelope is not None


async def test_an_observed_route_says_why_its_bodies_stay(runtime: Runtime) -> None:
    observing = make_runtime(make_config(mode="observe"), Told())

    call = await admitted(observing, given())

    assert call.envelope is not None
    assert call.passthrough == "observe"


async def test_a_body_with_a_bom_or_broken_json_is_told_apart(runtime: Runtime) -> None:
    bom = await admitted(runtime, GivenRequest(b"\xef\xbb\xbf" + BODY))
    broken = await admitted(runtime, GivenRequest(BODY[:-1]))

    assert bom.envelope is not None
    assert broken.passthrough == "not_json"


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_request_for_one_token_is_a_probe(runtime: Runtime, limit: int) -> None:
    body = anthropic_body([user("q")], max_tokens=limit)

    call = await admitted(runtime, GivenRequest(body))

    assert call.is_probe == (limit == 1)


async def test_a_path_that_leads_nowhere_is_refused(runtime: Runtime) -> None:
    with pytest.raises(UnknownUpstream):
        admit_call(given(target="/nowhere"), runtime)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ((b"Authorization", b"Bearer k"), (b"x-api-key", b"k")),
        ((b"authorization", b"bearer k"), (b"x-goog-api-key", b"k")),
        ((b"api-key", b"k"), (b"X-Api-Key", b"k")),
    ],
)
async def test_a_credential_is_the_same_in_whatever_line_it_comes(
    runtime: Runtime, one: tuple[bytes, bytes], same: tuple[bytes, bytes]
) -> None:
    assert root(runtime, one) == root(runtime, same)


async def test_state_is_keyed_by_credential_scope_and_upstream(
    runtime: Runtime,
) -> None:
    key, scope = (b"x-api-key", b"k"), (b"x-deuz-scope", b"s")
    roots = {
        root(runtime),
        root(runtime, key),
        root(runtime, (b"x-api-key", b"K")),
        root(runtime, key, scope),
        root(runtime, key, target="/v1/chat/completions"),
        root(runtime, target="/v1/messages?key=k"),
    }

    # A key in the query is the same credential as one in a line.
    assert len(roots) == 5
    assert root(runtime, target="/v1/messages?key=k") == root(runtime, key)


async def test_an_identity_holds_no_credential_and_no_session(runtime: Runtime) -> None:
    lines = ((b"x-api-key", b"canary-key"), (b"session_id", b"canary-session"))

    call = admit_call(given(*lines), runtime)

    assert call.identity.session is not None
    assert "canary" not in repr(call.identity)


async def test_equal_session_names_of_two_credentials_are_two_sessions(
    runtime: Runtime,
) -> None:
    sessions = [
        admit_call(
            given((b"x-api-key", key), (b"x-session-id", b"s")), runtime
        ).identity.session
        for key in (b"a", b"b")
    ]

    assert sessions[0] != sessions[1]


async def test_a_known_tenant_is_the_scope(runtime: Runtime) -> None:
    digest = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"
    config = make_config(
        more=f'tenants: {{other: {{keys: ["sha256:{"0" * 64}"]}},'
        f' acme: {{keys: ["sha256:{digest}"]}}}}'
    )
    tenants = make_runtime(config, Told())

    known = admit_call(given((b"x-api-key", b"key")), tenants).identity
    unknown = admit_call(given((b"x-api-key", b"no")), tenants).identity

    assert (known.scope, known.is_known) == ("acme", True)
    assert not unknown.is_known


@pytest.mark.parametrize(
    ("lines", "parent"),
    [
        ((), 0),
        (((b"traceparent", b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-01"),), 0xCD),
        (((b"traceparent", b"\xff not one"),), 0),
    ],
)
async def test_an_incoming_trace_is_continued_if_it_is_one(
    runtime: Runtime, lines: tuple[tuple[bytes, bytes], ...], parent: int
) -> None:
    def new_trace(traceparent: str | None) -> Trace:
        return make_trace(traceparent, lambda bits: 7, sampler_named("always_on", ""))

    tracing = replace(runtime, new_trace=new_trace)

    trace = admit_call(given(*lines), tracing).trace

    assert trace is not None
    assert trace.parent_span_id & 0xFF == parent


async def test_a_call_is_apart_only_if_it_gives_up_what_its_route_compiles(
    runtime: Runtime,
) -> None:
    lowered = (b"x-deuz-mode", b"observe")
    observing = make_runtime(make_config(mode="shadow"), Told())

    assert admit_call(given(lowered), runtime).is_apart
    assert not admit_call(given(), runtime).is_apart
    assert not admit_call(given(lowered), observing).is_apart


async def test_a_body_that_goes_on_is_resumed_and_read_the_same(
    runtime: Runtime,
) -> None:
    turns = [user("q" * 2000), {"role": "assistant", "content": "a"}, user("r")]
    path = "/v1/chat/completions"
    first = await admitted(runtime, GivenRequest(chat_body(turns[:1]), path))
    fresh = await admitted(runtime, GivenRequest(chat_body(turns), path))

    assert first.chain[0] == fresh.chain[0]
    assert len(fresh.chain) == 3


async def test_a_scope_that_is_no_name_shares_no_state_with_its_tenant(
    runtime: Runtime,
) -> None:
    assert root(runtime, (b"x-deuz-scope", b"a/../b")) != root(runtime)


async def test_two_apis_at_one_upstream_share_no_state(runtime: Runtime) -> None:
    targets = ("/@openai/v1/chat/completions", "/@openai/v1/responses")

    roots = {root(runtime, target=target) for target in targets}

    assert len(roots) == 2


SIGNED = ((b"Authorization", b"AWS4-HMAC-SHA256 Credential=AKID/20261130/eu"),)


@pytest.mark.parametrize("path", ["/model/m/invoke", "/model/m/converse-stream"])
async def test_a_body_of_bedrock_is_not_even_read(runtime: Runtime, path: str) -> None:
    bearer = ((b"authorization", b"Bearer bedrock-api-key"),)

    for headers in (SIGNED, bearer):
        call = await admitted(
            runtime, GivenRequest(BODY, f"/@anthropic{path}", headers)
        )

        assert (call.body, call.passthrough) == (None, "signed")
        assert call.target.mode == "observe"
        assert call.target.model == "m"


async def test_a_signed_body_of_any_wire_is_understood_and_stays_as_it_is(
    runtime: Runtime,
) -> None:
    call = await admitted(runtime, GivenRequest(BODY, headers=SIGNED))

    assert call.envelope is not None
    assert (call.target.mode, call.passthrough) == ("observe", "signed")
    # It is no exception in its conversation: all its requests are signed.
    assert not call.is_apart


async def test_the_model_of_the_path_is_the_one_that_is_asked(runtime: Runtime) -> None:
    body = chat_body([user("q")])
    path = "/@openai/openai/deployments/D/chat/completions?api-version=1"

    call = await admitted(runtime, GivenRequest(body, path))

    assert call.envelope is not None
    assert call.envelope.model == "D"
