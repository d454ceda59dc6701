from deuz_compiler.causes import CAUSES
from deuz_compiler.records.reasons import REASONS
from deuz_compiler.records.refusal import REFUSALS
from deuz_compiler.verdict import OWNERS
from deuz_proxy import errors
from deuz_proxy.observe import vocabulary


def test_every_cause_of_the_compiler_is_a_label() -> None:
    assert set(CAUSES) <= set(vocabulary.CAUSES)


def test_owners_are_the_compiler_s() -> None:
    assert vocabulary.OWNERS == OWNERS


def test_every_refusal_of_the_compiler_can_be_a_fallback() -> None:
    assert set(REFUSALS) <= set(vocabulary.FALLBACKS)


def test_reasons_of_records_are_the_compiler_s() -> None:
    assert vocabulary.RECORD_REASONS == REASONS


def test_every_error_of_the_proxy_is_a_fault_code() -> None:
    codes = {
        kind.code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.SidecarError)
    }

    assert codes <= set(vocabulary.FAULT_CODES)


def test_sets_have_no_word_twice_and_leave_other_to_the_clamp() -> None:
    sets = [words for words in vars(vocabulary).values() if isinstance(words, tuple)]

    assert len(sets) > 15
    for words in sets:
        assert len(set(words)) == len(words)
        assert vocabulary.OTHER not in words
