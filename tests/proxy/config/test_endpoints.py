import pytest

from deuz_proxy.config.endpoints import (
    Endpoint,
    endpoint_at,
    family_at,
    path_of_one_answer,
)

VERTEX = "/v1/projects/p/locations/eu/publishers"
ARN = "arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Feu.anthropic.claude-x-v1%3A0"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/messages", Endpoint("anthropic")),
        ("/gateway/v1/messages", Endpoint("anthropic")),
        ("/v1/messages/count_tokens", Endpoint()),
        ("/v1/chat/completions", Endpoint("openai_chat")),
        ("/api/v1/chat/completions", Endpoint("openai_chat")),
        ("/openai/v1/chat/completions", Endpoint("openai_chat")),
        ("/openai/v1/responses", Endpoint("openai_responses")),
        (
            "/openai/deployments/my%20gpt/chat/completions",
            Endpoint("openai_chat", "my gpt"),
        ),
        ("/openai/deployments/d/embeddings", Endpoint()),
        ("/v1/responses/resp_1/cancel", Endpoint()),
        ("/v1/responses/compact", Endpoint("openai_responses", is_compaction=True)),
        ("/v1beta/models/gemini-x:generateContent", Endpoint("gemini", "gemini-x")),
        ("/v1/models/gemini-x%3AgenerateContent", Endpoint("gemini", "gemini-x")),
        (
            "/v1beta/models/gemini-x:streamGenerateContent",
            Endpoint("gemini", "gemini-x", is_streamed=True),
        ),
        ("/v1beta/tunedModels/t:generateContent", Endpoint("gemini", "t")),
        ("/v1beta/models/gemini-x:countTokens", Endpoint()),
        ("/v1beta/models/gemini-x:embedContent", Endpoint()),
        (
            f"{VERTEX}/google/models/gemini-x:streamGenerateContent",
            Endpoint("gemini", "gemini-x", is_streamed=True),
        ),
        (
            f"{VERTEX}/anthropic/models/claude-x@20250929:rawPredict",
            Endpoint("anthropic", "claude-x@20250929"),
        ),
        (
            f"{VERTEX}/anthropic/models/claude-x:streamRawPredict",
            Endpoint("anthropic", "claude-x", is_streamed=True),
        ),
        (f"{VERTEX}/anthropic/models/count-tokens:rawPredict", Endpoint()),
        (f"{VERTEX}/mistralai/models/m:rawPredict", Endpoint()),
        ("/api/chat", Endpoint("ollama_chat")),
        ("/api/generate", Endpoint("ollama_generate")),
        ("/api/tags", Endpoint()),
        (
            "/model/anthropic.claude-x-v1:0/converse",
            Endpoint("bedrock_converse", "anthropic.claude-x-v1:0"),
        ),
        (
            f"/model/{ARN}/converse-stream",
            Endpoint(
                "bedrock_converse", "eu.anthropic.claude-x-v1:0", is_streamed=True
            ),
        ),
        ("/model/m/invoke", Endpoint("bedrock_invoke", "m")),
        (
            "/model/m/invoke-with-response-stream",
            Endpoint("bedrock_invoke", "m", is_streamed=True),
        ),
        ("/model/m/invoke-with-bidirectional-stream", Endpoint()),
        ("/model/m/count-tokens", Endpoint()),
        ("", Endpoint()),
    ],
)
def test_the_end_of_a_path_tells_api_model_and_stream(
    path: str, expected: Endpoint
) -> None:
    assert endpoint_at(path) == expected


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/v1/messages/batches", "anthropic"),
        (f"{VERTEX}/anthropic/models/claude-x:rawPredict", "anthropic"),
        ("/v1/chat/completions", "openai"),
        ("/openai/deployments/d/embeddings", "openai"),
        ("/openai/v1/files", "openai"),
        ("/v1/models", "openai"),
        ("/v1/models/gemini-x:generateContent", "gemini"),
        ("/v1/models/ft:gpt-4o:org::id", "openai"),
        (f"{VERTEX}/google/models/gemini-x:countTokens", "gemini"),
        ("/v1beta/models", "gemini"),
        ("/api/tags", "ollama"),
        ("/model/m/invoke-with-response-stream", "bedrock"),
        ("/model/m/count-tokens", "bedrock"),
        ("/elsewhere", "none"),
    ],
)
def test_a_path_looks_like_its_provider(path: str, family: str) -> None:
    assert family_at(path) == family


@pytest.mark.parametrize(
    ("target", "model", "expected"),
    [
        ("/v1/messages?beta=true", "m", "/v1/messages?beta=true"),
        (
            "/v1beta/models/big:streamGenerateContent?alt=sse",
            "big",
            "/v1beta/models/big:generateContent",
        ),
        (
            "/v1beta/models/big:streamGenerateContent?key=k&alt=sse",
            "small",
            "/v1beta/models/small:generateContent?key=k",
        ),
        (
            "/v1beta/models/big%3AstreamGenerateContent",
            "big",
            "/v1beta/models/big%3AgenerateContent",
        ),
        (
            "/v1beta/models/big:generateContent?key=k",
            "small",
            "/v1beta/models/small:generateContent?key=k",
        ),
        (
            f"{VERTEX}/anthropic/models/big:streamRawPredict",
            "small@1",
            f"{VERTEX}/anthropic/models/small%401:rawPredict",
        ),
        (
            "/openai/deployments/big/chat/completions?api-version=1",
            "small",
            "/openai/deployments/small/chat/completions?api-version=1",
        ),
        (
            "/openai/deployments/big/chat/completions?api-version=1",
            "big",
            "/openai/deployments/big/chat/completions?api-version=1",
        ),
    ],
)
def test_one_whole_answer_is_asked_at_the_same_place(
    target: str, model: str, expected: str
) -> None:
    assert path_of_one_answer(target, model) == expected
