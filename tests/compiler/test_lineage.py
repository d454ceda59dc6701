import pytest
from hypothesis import given

from deuz_compiler import chain, lift, lineage, scope_root, seed_of
from deuz_testing.bodies import (
    anthropic_body,
    assistant,
    chat_body,
    odd_bodies,
    user,
)

ROOT = scope_root(b"key", scope="tenant")
MARK = {"cache_control": {"type": "ephemeral"}}


def keys(body: bytes, wire: str = "anthropic", root: bytes = ROOT) -> tuple[bytes, ...]:
    return chain(lift(wire, body, seed=seed_of(root)), root=root)


def test_a_longer_history_continues_the_chain_of_the_shorter() -> None:
    short = keys(anthropic_body([user("a")]))
    long = keys(anthropic_body([user("a"), assistant("b"), user("c")]))

    assert long[:1] == short
    assert len(set(long)) == 3


def test_an_edited_turn_changes_every_key_from_it_on() -> None:
    one = keys(anthropic_body([user("a"), assistant("b"), user("c")]))
    other = keys(anthropic_body([user("a"), assistant("B"), user("c")]))

    assert one[0] == other[0]
    assert one[1] != other[1]
    assert one[2] != other[2]


def test_tools_system_and_markers_do_not_matter() -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "a", **MARK}]}

    assert keys(anthropic_body([user("a")], system="at 12:01")) == keys(
        anthropic_body([marked], system="at 12:02", tools=[{"name": "t"}])
    )


def test_leading_system_turns_do_not_matter_but_later_ones_do() -> None:
    at_one = {"role": "system", "content": "it is one"}
    at_two = {"role": "system", "content": "it is two"}

    one = keys(chat_body([at_one, user("a")]), "openai_chat")
    two = keys(chat_body([at_two, user("a")]), "openai_chat")
    late = keys(chat_body([at_one, user("a"), at_two]), "openai_chat")

    assert one[1] == two[1]
    assert late[2] != late[1]


def test_another_credential_or_scope_has_other_keys_throughout() -> None:
    body = anthropic_body([user("a"), assistant("b")])
    roots = [
        ROOT,
        scope_root(b"other", scope="tenant"),
        scope_root(b"key", scope="tenant/x"),
    ]

    chains = [keys(body, root=root) for root in roots]

    assert len({each[0][:8] for each in chains}) == 3
    assert len({key for each in chains for key in each}) == 6


def test_the_seed_differs_from_the_public_part_of_the_key() -> None:
    assert seed_of(ROOT) == int.from_bytes(ROOT[8:], "big")
    assert keys(anthropic_body([user("a")]))[0][:8] == ROOT[:8]


def test_credentials_that_differ_in_their_last_byte_only_have_other_roots() -> None:
    token = b"x" * 2_000

    assert scope_root(token + b"a", scope="t") != scope_root(token + b"b", scope="t")
    assert len(scope_root(token, scope="t")) == 16


@given(odd_bodies())
def test_without_the_compiled_scanner_the_keys_are_the_same(body: bytes) -> None:
    envelope = lift("anthropic", body, seed=7)
    built = chain(envelope, root=ROOT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lineage, "SCANNER", None)
        assert chain(envelope, root=ROOT) == built
