import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.config.model import ModelEntry
from deuz_proxy.config.windows import OTHER, Models, Window

BETA = "claude-code-20250219,context-1m-2025-08-07"
MODELS = Models({})


def total(model: str, beta: str = "", models: Models = MODELS) -> int | None:
    window = models.window(model, beta=beta)
    return window.total_tokens if window else None


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("anthropic.claude-opus-4-8", "claude-opus-4-8"),
        ("anthropic/claude-opus-4.8", "claude-opus-4-8"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-5", "claude-opus-5"),
        ("Claude-Opus-5", "claude-opus-5"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-sonnet-4-5"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-4.1-mini", "gpt-4.1-mini"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-5.6", "gpt-5.6"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("projects/p/locations/l/models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("deepseek/deepseek-chat:free", "deepseek-chat"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_ids_lead_to_their_family(model: str, family: str) -> None:
    assert MODELS.known(model) == family
    assert MODELS.window(model) is not None


@pytest.mark.parametrize(
    "model",
    [
        "",
        "gpt",
        "gpt-5.9",
        "gpt-4o-audio-x",
        "claude-opus-5-9",
        "my-gpt-4o",
        "o33",
        "[1m]",
    ],
)
def test_variants_nobody_described_have_no_window_and_share_a_label(model: str) -> None:
    assert MODELS.window(model) is None
    assert MODELS.known(model) == OTHER


def test_a_missing_model_has_the_common_label() -> None:
    assert MODELS.known(None) == OTHER


@pytest.mark.parametrize(
    ("model", "beta", "tokens"),
    [
        ("claude-sonnet-4-5", "", 200_000),
        ("claude-sonnet-4-5", BETA, 1_000_000),
        ("claude-sonnet-4-5[1m]", "", 1_000_000),
        ("claude-sonnet-4-5-20250929[1M]", "", 1_000_000),
        ("claude-sonnet-4-20250514", BETA, 1_000_000),
        ("claude-sonnet-4-5", "other-beta", 200_000),
        ("claude-haiku-4-5", BETA, 200_000),
        ("claude-opus-4-8", "", 1_000_000),
        ("claude-opus-4-8", BETA, 1_000_000),
        ("claude-sonnet-4-5[500k]", "", 500_000),
    ],
)
def test_the_window_is_told_from_id_and_header_together(
    model: str, beta: str, tokens: int
) -> None:
    assert total(model, beta) == tokens


def test_the_config_wins_over_the_table_and_over_the_beta() -> None:
    models = Models(
        {
            "claude-sonnet-4-5": ModelEntry(context_window=150_000),
            "claude-opus-4-5[1m]": ModelEntry(context_window=900_000),
        }
    )

    assert total("claude-sonnet-4-5-20250929", "", models) == 150_000
    assert total("claude-sonnet-4-5", BETA, models) == 150_000
    assert total("claude-sonnet-4-5[1m]", "", models) == 1_000_000
    assert total("claude-opus-4-5[1m]", "", models) == 900_000
    assert total("claude-opus-4-5", "", models) == 200_000


def test_of_two_families_the_longer_name_wins_wherever_it_stands() -> None:
    models = Models({"gpt-4o": ModelEntry(context_window=1_000)})

    assert models.window("gpt-4o") == Window(1_000, None, None, "config")
    assert total("gpt-4o-mini", "", models) == 128_000


def test_a_configured_model_is_labelled_as_it_is_written() -> None:
    models = Models({"My/Model": ModelEntry(context_window=1_000)})

    assert models.known("my/model") == "My/Model"
    assert "My/Model" in models.names()


def test_labels_are_a_closed_list_with_other_in_it() -> None:
    names = MODELS.names()

    assert len(set(names)) == len(names)
    assert OTHER in names
    assert all(MODELS.known(name) == name for name in names if name != OTHER)


@given(st.text(max_size=300))
def test_whatever_a_client_sends_its_label_is_on_the_list(model: str) -> None:
    assert MODELS.known(model) in MODELS.names()


@pytest.mark.parametrize(
    ("window", "output", "room"),
    [
        (Window(200_000, None, 64_000, "builtin"), 8_000, 192_000),
        (Window(200_000, None, 64_000, "builtin"), 900_000, 136_000),
        (Window(None, 272_000, 128_000, "builtin"), 100_000, 272_000),
        (Window(300, 250, None, "config"), 100, 200),
        (Window(300, 250, None, "config"), 10, 250),
        (Window(100, None, None, "config"), 500, 0),
    ],
)
def test_room_is_what_the_answer_leaves(window: Window, output: int, room: int) -> None:
    assert window.room(output) == room


def test_models_that_bind_thinking_are_known_by_any_of_their_ids() -> None:
    assert MODELS.binds_thinking("claude-opus-5-5-20261001")
    assert not MODELS.binds_thinking("claude-opus-5")
    assert not MODELS.binds_thinking("unheard-of")


def test_the_config_says_the_last_word_on_thinking() -> None:
    models = Models(
        {
            "claude-opus-5-5": ModelEntry(context_window=1, binds_thinking=False),
            "mine": ModelEntry(context_window=1, binds_thinking=True),
            "claude-sonnet-5-5": ModelEntry(context_window=1),
        }
    )

    assert not models.binds_thinking("claude-opus-5-5")
    assert models.binds_thinking("mine")
    assert models.binds_thinking("claude-sonnet-5-5")
