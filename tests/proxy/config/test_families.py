import re

from deuz_proxy.config.families import FAMILIES, THINKING_BINDING


def test_every_family_has_a_window_and_an_answer_that_fits() -> None:
    for name, family in FAMILIES.items():
        limits = [family.total_tokens, family.input_tokens]
        known = [limit for limit in limits if limit is not None]

        assert known, name
        assert all(limit > 1_000 for limit in known), name
        assert (family.max_output_tokens or 1) <= min(known), name
        assert family.long_total_tokens is None or family.long_total_tokens > min(known)


def test_names_are_written_as_ids_are_folded() -> None:
    assert [name for name in FAMILIES if not re.fullmatch(r"[a-z0-9.-]+", name)] == []


def test_models_that_bind_thinking_are_known_families() -> None:
    assert [name for name in THINKING_BINDING if name not in FAMILIES] == []
