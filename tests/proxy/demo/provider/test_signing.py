import base64

from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.demo.provider.signing import Seal, Signer

SIGNER = Signer(b"one")


@given(st.text(), st.integers(0, 9), st.integers(1, 9))
def test_what_was_signed_is_recognised_with_its_place(
    text: str, index: int, count: int
) -> None:
    seal = Seal(index, count)

    assert SIGNER.open(text, SIGNER.sign(text, seal)) == seal
    assert SIGNER.unwrap(SIGNER.wrap(text, seal)) == seal


@given(st.text(), st.text())
def test_another_text_is_not(text: str, other: str) -> None:
    if text != other:
        assert SIGNER.open(other, SIGNER.sign(text, Seal(0, 1))) is None


def test_another_provider_is_foreign() -> None:
    assert Signer(b"two").open("a", SIGNER.sign("a", Seal(0, 1))) is None
    assert Signer(b"two").unwrap(SIGNER.wrap("a", Seal(0, 1))) is None


@given(st.text())
def test_any_garbage_is_foreign_and_raises_nothing(garbage: str) -> None:
    assert SIGNER.open("a", garbage) is None
    assert SIGNER.unwrap(garbage) is None


def test_a_blob_survives_the_url_safe_alphabet() -> None:
    blob = SIGNER.wrap("ÿþ~~~>>>???", Seal(0, 1))
    url_safe = base64.urlsafe_b64encode(base64.b64decode(blob)).decode()

    assert url_safe != blob
    assert SIGNER.unwrap(url_safe) == Seal(0, 1)
