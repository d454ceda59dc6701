import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    server_attributes,
    url_attributes,
)

from deuz_proxy.observe import names

PUBLISHED = {
    value
    for module in (
        gen_ai_attributes,
        error_attributes,
        http_attributes,
        server_attributes,
        url_attributes,
    )
    for value in vars(module).values()
    if isinstance(value, str)
}
# Newer than the package of conventions that is published, or not in its modules.
NEWER = {
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.conversation.compacted",
    "gen_ai.request.stream",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.usage.reasoning.output_tokens",
    "http.request.body.size",
    "http.response.body.size",
}


def test_names_of_others_are_those_that_the_conventions_publish() -> None:
    exported = names.SERVER_ATTRIBUTES | names.CLIENT_ATTRIBUTES
    foreign = {name for name in exported if not name.startswith("deuz.")}

    assert foreign - PUBLISHED <= NEWER


def test_the_older_setting_uses_the_published_name() -> None:
    assert names.OLDER.cache_write in PUBLISHED
    assert names.NEWEST.cache_write not in PUBLISHED


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/messages?beta=true", "chat"),
        ("/v1/responses", "chat"),
        ("/api/chat", "chat"),
        ("/v1/completions", "text_completion"),
        ("/api/generate", "text_completion"),
        ("/v1/embeddings", "embeddings"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "generate_content"),
        ("/v1/messages/count_tokens", None),
        ("/v1/models", None),
        ("/", None),
    ],
)
def test_operation_is_told_from_the_path(path: str, operation: str | None) -> None:
    assert names.operation_of(path) == operation


def test_provider_is_the_format_s() -> None:
    assert names.provider_of("openai_responses") == "openai"
    assert names.provider_of("gemini") == "gcp.gemini"
    assert names.provider_of("none") is None
