import pytest

from deuz_proxy.memory.records import Draft, Record, id_fault, scope_fault, text_fault


@pytest.mark.parametrize("scope", ["acme", "default", "acme/user-7", "a/x@y.z:1+2"])
def test_tenant_and_tenant_with_a_name_are_scopes(scope: str) -> None:
    assert scope_fault(scope) is None


@pytest.mark.parametrize("scope", ["", "/", "a/", "a/b/c", "-a", "a b", "ä", "a\n"])
def test_anything_else_is_no_scope(scope: str) -> None:
    assert "is not a scope" in str(scope_fault(scope))


@pytest.mark.parametrize("record_id", ["1", "a/b c", "語", "x" * 256])
def test_an_id_is_any_printable_text(record_id: str) -> None:
    assert id_fault(record_id) is None


@pytest.mark.parametrize("record_id", ["", "x" * 257, "a\nb", "a\x00", "\ud800"])
def test_an_id_is_neither_empty_nor_long_nor_control_characters(
    record_id: str,
) -> None:
    assert "1 to 256" in str(id_fault(record_id))


@pytest.mark.parametrize("text", ["", "a\tb\r\n", "😀 語 Ä"])
def test_unicode_text_can_be_kept(text: str) -> None:
    assert text_fault(text) is None


@pytest.mark.parametrize("text", ["a\x00b", "\udc00"])
def test_what_no_store_or_provider_carries_is_told(text: str) -> None:
    assert "NUL" in str(text_fault(text))


def test_a_record_has_the_id_of_its_draft() -> None:
    assert Record(Draft("r1", "x"), 1, "sha256:0").id == "r1"
