import pytest
from pydantic import ValidationError

from deuz_proxy.config.section import Section, id_from_kind


class Sample(Section):
    size: int = 1


def test_an_unknown_key_is_a_mistake() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Sample.model_validate({"sise": 2})


def test_values_never_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Sample().size = 2


def test_a_mistake_does_not_quote_what_was_given() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"size": "canary"})

    assert "canary" not in str(caught.value)


def test_a_source_without_an_id_is_named_by_its_kind() -> None:
    assert id_from_kind({"kind": "rag"}) == "rag"
