import pytest

from deuz_proxy.observe.events import RequestFinished, SourceOutcome, UpstreamCall
from deuz_proxy.sinks import attributes
from deuz_proxy.sinks.attributes import (
    Asked,
    Called,
    Served,
    read_alike,
    read_called,
    served_and_asked,
)
from deuz_proxy.sinks.otlp_bytes import AttributeValue
from deuz_testing.events import STARTED_AT, compiled, finished, overflown

CALL = UpstreamCall(STARTED_AT + 0.25, 1.7, 200, None)

Said = dict[str, AttributeValue]


def known(said: attributes.Attributes) -> Said:
    return {key: value for key, value in said.items() if value is not None}


def served(**changes: object) -> Served:
    return served_and_asked(read_alike(finished(**changes)))[0]


def asked_of(event: RequestFinished) -> Asked:
    return served_and_asked(read_alike(event))[1]


def server_said(**changes: object) -> Said:
    return known(attributes.server_attributes(served(**changes)))


def call_said(
    event: RequestFinished, call: UpstreamCall, *, is_answer: bool = True
) -> Said:
    asked, called = asked_of(event), Called(*read_called(call))
    return known(attributes.call_attributes(asked, called, is_answer=is_answer))


def call_name(event: RequestFinished, call: UpstreamCall) -> str:
    return attributes.call_name(asked_of(event), Called(*read_called(call)))


def answered(**changes: object) -> Said:
    event = finished(**changes)
    return call_said(event, event.upstream_calls[-1])


@pytest.mark.parametrize("event", [finished(), overflown(), finished(group="treated")])
def test_what_is_alike_is_read_in_the_order_of_its_names(
    event: RequestFinished,
) -> None:
    read = served_and_asked(read_alike(event))

    for part in read:
        assert part._asdict() == {name: getattr(event, name) for name in part._fields}
    called = Called(*read_called(CALL))
    assert called._asdict() == {name: getattr(CALL, name) for name in Called._fields}


def test_server_span_tells_what_happened() -> None:
    said = server_said(passthrough="observe")

    assert said["http.request.method"] == "POST"
    assert said["http.response.status_code"] == 200
    assert said["deuz.route"] == "chat"
    assert said["deuz.mode"] == "observe"
    assert said["deuz.outcome"] == "ok"
    assert said["deuz.passthrough"] == "observe"


def test_query_and_unknown_parts_of_a_path_are_not_told() -> None:
    said = server_said(path="/v1/files/CANARY?key=CANARY")

    assert said["url.path"] == "/v1/files/_"
    assert "CANARY" not in str(said)


def test_request_that_went_well_has_no_error() -> None:
    assert attributes.request_error(served()) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"outcome": "client_closed"}, "client_closed"),
        ({"outcome": "truncated"}, "truncated"),
        ({"status": 429, "outcome": "upstream_error"}, "upstream_error"),
        ({"status": 404}, "404"),
        ({"outcome": "refused", "error": "context_refused"}, "context_refused"),
        ({"outcome": "refused", "error": "a sentence, with content"}, "_OTHER"),
    ],
)
def test_error_is_a_word(changes: dict[str, object], error: str) -> None:
    assert attributes.request_error(served(**changes)) == error


def test_method_that_http_does_not_have_is_other() -> None:
    assert server_said(method="CANARY")["http.request.method"] == "_OTHER"


def test_call_tells_request_and_response() -> None:
    said = answered()

    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.provider.name"] == "openai"
    assert said["gen_ai.request.model"] == "gpt-x"
    assert said["gen_ai.request.max_tokens"] == 512
    assert said["gen_ai.response.model"] == "gpt-x-2026"
    assert said["gen_ai.response.finish_reasons"] == ("stop",)
    assert said["server.address"] == "api.openai.com"
    assert said["server.port"] == 443


def test_buffered_answer_says_nothing_of_streaming() -> None:
    said = answered(is_streamed=False)

    assert "gen_ai.request.stream" not in said


def test_cut_answer_finished_with_an_error() -> None:
    said = answered(outcome="truncated", finish_reason=None)

    assert said["gen_ai.response.finish_reasons"] == ("error",)
    assert said["error.type"] == "truncated"


def test_summary_has_its_own_model_and_usage_and_no_answer() -> None:
    event = overflown()
    summary = event.upstream_calls[1]

    said = call_said(event, summary, is_answer=False)

    assert call_name(event, summary) == "chat mini"
    assert said["deuz.upstream.purpose"] == "summarize"
    assert "gen_ai.response.model" not in said


def test_rejected_call_has_its_status_as_error() -> None:
    event = overflown()

    said = call_said(event, event.upstream_calls[0], is_answer=False)

    assert said["error.type"] == "400"


def test_call_that_got_no_answer_has_its_error_and_no_status() -> None:
    event = finished()
    call = UpstreamCall(STARTED_AT, 1.0, None, "upstream_broken")

    said = call_said(event, call, is_answer=True)

    assert said["error.type"] == "upstream_broken"
    assert "http.response.status_code" not in said


def test_call_that_is_no_inference_is_a_plain_http_call() -> None:
    event = finished(path="/v1/models", method="GET", model=None, usage=None)

    said = call_said(event, CALL, is_answer=True)

    assert call_name(event, CALL) == "GET"
    assert not [name for name in said if name.startswith("gen_ai.")]


def test_long_model_name_is_cut() -> None:
    assert len(call_name(finished(model="m" * 5_000), CALL)) < 300


def test_compile_tells_itself_and_each_source() -> None:
    source = SourceOutcome("My Docs/v2", "rag", "ok", 0.01, 2, 3, 400)

    said = attributes.compile_attributes(compiled(sources=(source,)))

    assert said["deuz.context.selected"] == 1
    assert said["deuz.context.refresh_reason"] == "initial"
    assert said["deuz.context.fallback"] == "none"
    assert said["deuz.context.cache_prefix_changed"] is False
    assert said["deuz.context.manifest_digest"] == "sha256:00"
    assert said["deuz.context.source.my_docs_v2.selected"] == 2
    assert said["deuz.context.source.my_docs_v2.excluded"] == 3
    assert said["deuz.context.source.my_docs_v2.tokens"] == 400
