import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.observe.redact import shown_name, shown_path, shown_source, shown_word


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/messages?beta=true&key=CANARY", "/v1/messages"),
        ("/v1/files/file-CANARY/content", "/v1/files/_/content"),
        ("/v1beta/models/gemini-x:generateContent", "/v1beta/models/_:generateContent"),
        ("/v1beta/models/gemini-x:CANARY", "/v1beta/models/_"),
        ("/sk-CANARY/v1/messages#CANARY", "/_/v1/messages"),
        ("/@local/v1/messages", "/@local/v1/messages"),
        ("/@CANARY/v1/messages", "/_/v1/messages"),
        ("/", "/"),
        ("", ""),
    ],
)
def test_path_shows_api_words_only(path: str, shown: str) -> None:
    assert shown_path(path, "local") == shown


@given(path=st.text())
def test_shown_path_does_not_change_when_shown_again(path: str) -> None:
    shown = shown_path(path)

    assert shown_path(shown) == shown


@pytest.mark.parametrize("word", ["upstream_broken", "TimeoutError", "end_turn", "429"])
def test_identifier_is_shown(word: str) -> None:
    assert shown_word(word) == word


@pytest.mark.parametrize(
    "prose", ["two words", "", "x" * 65, "a\nb", "key=CANARY", "é"]
)
def test_prose_is_not_shown(prose: str) -> None:
    assert shown_word(prose) == "_OTHER"


def test_no_word_stays_no_word() -> None:
    assert shown_word(None) is None


def test_name_is_cut() -> None:
    assert len(shown_name("m" * 10_000)) == 256


def test_name_with_a_lone_surrogate_can_be_encoded() -> None:
    assert shown_name("m\ud800") == "m?"


def test_source_id_fits_an_attribute_name() -> None:
    assert shown_source("My Docs/v2.Ünï_a-b") == "my_docs_v2__n__a-b"
