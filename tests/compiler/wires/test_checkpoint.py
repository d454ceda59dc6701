from deuz_compiler import lift
from deuz_testing.bodies import anthropic_body, assistant, user
from deuz_testing.checkpoints import checkpoint_of, goes_on

MARK = {"cache_control": {"type": "ephemeral"}}


def test_a_checkpoint_stands_before_the_first_marked_turn() -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "b", **MARK}]}
    body = anthropic_body([user("a"), assistant("x"), marked])

    checkpoint = checkpoint_of(lift("anthropic", body))

    assert len(checkpoint.turns) == 2
    moved = anthropic_body([user("a"), assistant("x"), user("b"), user("c")])
    # The marker has moved on: the bytes of the turn that had it are others now.
    assert goes_on(moved, checkpoint)
    assert lift("anthropic", moved).turns[2].digest == (
        lift("anthropic", body).turns[2].digest
    )


def test_a_checkpoint_without_turns_can_be_resumed() -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "b", **MARK}]}
    body = anthropic_body([marked])

    checkpoint = checkpoint_of(lift("anthropic", body))

    assert not checkpoint.turns
    assert lift("anthropic", body, known=checkpoint) == lift("anthropic", body)


def test_a_shorter_body_may_have_its_checkpoint_before_the_one_it_went_on_from() -> (
    None
):
    """Of the older body only the newest turns were searched for markers."""
    marked = {"role": "user", "content": [{"type": "text", "text": "m", **MARK}]}
    turns = [user("a"), marked, *[assistant("x"), user("y")] * 4]
    known = checkpoint_of(lift("anthropic", anthropic_body([*turns[:-1], marked])))
    shorter = anthropic_body(turns[:9])
    assert goes_on(shorter, known)
    envelope = lift("anthropic", shorter, known=known)

    checkpoint = checkpoint_of(envelope)

    assert (len(known.turns), len(checkpoint.turns)) == (9, 1)
    assert checkpoint == checkpoint_of(lift("anthropic", shorter))


def test_a_body_that_is_the_checkpoint_itself_is_no_continuation() -> None:
    body = anthropic_body([user("a")])
    checkpoint = checkpoint_of(lift("anthropic", body))

    assert goes_on(body, checkpoint)
    assert not goes_on(body[: checkpoint.offset], checkpoint)
