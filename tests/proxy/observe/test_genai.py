from deuz_proxy.observe import genai


def test_generations_share_no_name() -> None:
    newest = {metric.otlp for metric in genai.NEWEST}

    assert not newest & {metric.otlp for metric in genai.OLDER}


def test_newest_names_are_those_of_the_inference_metrics() -> None:
    for metric in genai.NEWEST:
        assert metric.otlp.startswith("gen_ai.client.inference.")


def test_attributes_have_the_conventions_names() -> None:
    for metric in (*genai.NEWEST, *genai.OLDER):
        for label in metric.labels:
            assert label.otlp.startswith(("gen_ai.", "error."))


def test_bounds_are_the_conventions_advice() -> None:
    assert genai.INPUT_TOKENS.buckets[:3] == (1.0, 4.0, 16.0)
    assert genai.INPUT_TOKENS.buckets[-1] == 67_108_864.0
    assert genai.DURATION.buckets[0] == 0.01
    assert genai.DURATION.buckets[-1] == 81.92
