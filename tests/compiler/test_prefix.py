import pytest
from hypothesis import given
from hypothesis import strategies as st

from deuz_compiler import (
    Append,
    Fold,
    Operation,
    Prune,
    lift,
    plain_prefix,
    project,
    tokens_with,
    with_surface,
)
from deuz_compiler import prefix as module
from deuz_compiler.prefix import (
    Difference,
    Prefix,
    common_bytes,
    common_elements,
    first_difference,
    without,
)
from deuz_testing.bodies import anthropic_body, assistant, chat_body, user

TURNS = [user("a"), assistant("b"), user("c")]
MARK = {"cache_control": {"type": "ephemeral"}}


def prefix(body: bytes, wire: str = "anthropic") -> Prefix:
    envelope = lift(wire, body)
    return plain_prefix(envelope)


def test_a_longer_history_continues_the_prefix() -> None:
    old, new = prefix(anthropic_body(TURNS[:1])), prefix(anthropic_body(TURNS))

    assert first_difference(old, new) is None
    assert common_elements(old, new) == 1
    assert new.count == 3


def test_a_history_that_ends_earlier_differs_at_its_end() -> None:
    old, new = prefix(anthropic_body(TURNS)), prefix(anthropic_body(TURNS[:2]))

    assert first_difference(old, new) == Difference("turn", 2)


@pytest.mark.parametrize(
    ("members", "segment"),
    [
        ({"model": "other"}, "model"),
        ({"thinking": {"type": "enabled"}}, "params"),
        ({"tools": [{"name": "x"}], "system": "other"}, "tools"),
        ({"system": "other"}, "system"),
    ],
)
def test_the_first_changed_segment_in_rendered_order_is_named(
    members: dict[str, object], segment: str
) -> None:
    base = {"system": "S", "tools": [{"name": "t"}]}

    old = prefix(anthropic_body(TURNS, **base))
    new = prefix(anthropic_body(TURNS, **{**base, **members}))

    assert first_difference(old, new) == Difference(segment, 0)


def test_markers_on_tools_and_system_are_not_rendered() -> None:
    tools = [{"name": "a"}, {"name": "b"}]
    marked = [tools[0], {**tools[1], **MARK}]
    system = [{"type": "text", "text": "S", **MARK}]

    old = prefix(anthropic_body(TURNS, tools=tools, system="S"))
    new = prefix(anthropic_body(TURNS, tools=marked, system=system))

    assert first_difference(old, new) is None


def test_leading_system_turns_are_the_system_segment() -> None:
    system = {"role": "system", "content": "one"}
    other = {"role": "system", "content": "two"}

    old = prefix(chat_body([system, *TURNS]), "openai_chat")
    new = prefix(chat_body([other, *TURNS]), "openai_chat")

    assert old.count == 3
    assert first_difference(old, new) == Difference("system", 0)


def test_tokens_are_summed_from_a_place_on() -> None:
    whole = prefix(anthropic_body(TURNS, system="S " * 100))

    assert whole.tokens_from(0) == sum(whole.token_counts())
    assert whole.tokens_from(1) < whole.tokens_from(0)
    assert whole.total_tokens == whole.head_tokens + whole.tokens_from(0)
    assert whole.system.tokens > 20


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_common_start_is_what_a_walk_finds(
    start: bytes, old: bytes, new: bytes
) -> None:
    a, b = start + old, start + new
    walked = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
        min(len(a), len(b)),
    )

    assert common_bytes(a, b) == walked


def test_a_system_text_is_the_same_as_string_and_as_list_marked_or_not() -> None:
    block = {"type": "text", "text": "S"}

    digests = {
        prefix(anthropic_body(TURNS, system=system)).system.digest
        for system in ("S", [block], [{**block, **MARK}])
    }

    assert len(digests) == 1


@pytest.mark.parametrize(
    "members",
    [
        {"tool_choice": {"type": "auto"}},
        {"thinking": {"type": "disabled"}, "tool_choice": None},
        {"output_config": {"effort": "high"}},
    ],
)
def test_a_parameter_at_its_default_is_as_good_as_absent(
    members: dict[str, object],
) -> None:
    old, new = prefix(anthropic_body(TURNS)), prefix(anthropic_body(TURNS, **members))

    assert first_difference(old, new) is None


def test_the_order_of_parameters_does_not_count() -> None:
    one, other = {"reasoning_effort": "low"}, {"verbosity": "low"}

    old = prefix(chat_body(TURNS, **one, **other), "openai_chat")
    new = prefix(chat_body(TURNS, **other, **one), "openai_chat")

    assert first_difference(old, new) is None


@pytest.mark.parametrize(
    ("wire", "order"),
    [
        ("anthropic", ("model", "tools", "system", "params")),
        ("openai_chat", ("model", "params", "tools", "system")),
    ],
)
def test_parameters_stand_where_the_cache_depends_on_them(
    wire: str, order: tuple[str, ...]
) -> None:
    assert prefix(anthropic_body(TURNS), wire).order == order


def test_what_the_surface_shows_is_the_plain_prefix_with_what_was_added() -> None:
    messages = [user("a"), assistant("b"), user("c"), assistant("d")]
    envelope = lift(
        "openai_chat", chat_body([{"role": "system", "content": "s"}, *messages])
    )
    block = Append(b"block", (), 40)
    whole = Fold(2, b"sum", 7, is_whole=True)
    surface = project(envelope, {1: (block,), 3: (whole,)}, no_parts)
    plain = plain_prefix(envelope)

    shown = with_surface(plain, envelope, surface)

    elements = [e for e in surface.elements if e.turn >= envelope.lead]
    assert shown.digests == b"".join([e.digest[:8] for e in elements])
    assert shown.token_counts() == tuple(e.tokens for e in elements)
    assert shown.history_tokens == sum(e.tokens for e in elements)
    assert shown.system == plain.system
    assert surface.ours(envelope.lead).pairs() == [(1, 40), (2, 7)]


@given(st.integers(0, 9))
def test_a_prefix_is_the_same_without_what_was_built(turns: int) -> None:
    body = anthropic_body([user(f"turn {turn}") for turn in range(turns)])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SCANNER", None)
        alone = prefix(body)

    assert prefix(body) == alone


def test_a_surface_without_operations_is_the_plain_prefix() -> None:
    envelope = lift("anthropic", anthropic_body([user("a"), assistant("b")]))

    assert with_surface(
        plain_prefix(envelope), envelope, project(envelope, {}, no_parts)
    ) == plain_prefix(envelope)


@given(st.sets(st.integers(0, 4)), st.sampled_from([0, 2]))
def test_without_what_was_added_it_is_the_plain_prefix(
    turns: set[int], count: int
) -> None:
    lead = [{"role": "system", "content": "s"}] * count
    envelope = lift("openai_chat", chat_body([*lead, *map(user, "abcde")]))
    held = {count + turn: (Append(b"block", (), 40),) for turn in sorted(turns)}
    surface, plain = project(envelope, held, no_parts), plain_prefix(envelope)

    shown = with_surface(plain, envelope, surface)

    assert without(shown, surface.ours(envelope.lead).places) == plain


OPERATIONS = st.dictionaries(
    st.integers(0, 6),
    st.sampled_from(
        [
            (Append(b"block", (), 40),),
            (Fold(2, b"sum", 7),),
            (Fold(3, b"sum", 7, kept=(0, 2)), Append(b"block", (), 40)),
            (Prune(((0, b'"stub"'),)),),
        ]
    ),
    max_size=4,
)


@given(OPERATIONS, st.integers(0, 2))
def test_tokens_with_a_surface_are_those_of_the_prefix_with_it(
    operations: dict[int, tuple[Operation, ...]], count: int
) -> None:
    lead = [{"role": "system", "content": "s"}] * count
    turns = [user("a" * 90), assistant("b"), user("c"), assistant("d" * 9)]
    envelope = lift("openai_chat", chat_body([*lead, *turns, *turns]))
    surface = project(envelope, operations, lambda wire, raw, part: (9, 20))
    plain = plain_prefix(envelope)

    shown = with_surface(plain, envelope, surface)

    assert tokens_with(plain, envelope, surface) == shown.total_tokens


def no_parts(_wire: str, _raw: bytes, _part: int) -> tuple[int, int]:
    raise AssertionError
