from itertools import count

import msgspec
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from deuz_proxy.stores.conversation_state import (
    ConversationState,
    open_state,
    seal_state,
)
from deuz_proxy.stores.tracker import Tracker
from deuz_testing.tracker_talks import Talk

NAME = "c1"


def state_after(*histories: str) -> tuple[Tracker, ConversationState]:
    numbers = count(1)
    tracker, talk = Tracker(new_id=lambda: f"c{next(numbers)}"), Talk()
    for words in histories:
        talk.send(tracker, words)
    state = tracker.state_of(NAME)
    assert state is not None
    return tracker, state


def test_what_is_sealed_comes_back_equal_and_a_baseline_is_written_once() -> None:
    _, state = state_after("a", "a")

    opened = open_state(NAME, seal_state(NAME, state))

    assert opened == state
    assert len(state.baselines) == 1
    (place,) = state.places
    assert (state.latest, place.baselines, place.seen) == ((0,), (0,), 2)


def test_heads_are_those_of_tools_and_system_each_once() -> None:
    _, state = state_after("a")

    (system,) = state.heads
    assert system == state.baselines[0].outbound.system.digest
    assert ConversationState((), (), (), b"").heads == ()


@given(st.data())
def test_one_byte_of_damage_makes_it_no_state(data: st.DataObject) -> None:
    sealed = bytearray(seal_state(NAME, state_after("a")[1]))
    sealed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))

    assert open_state(NAME, bytes(sealed)) is None


@given(st.binary(max_size=60))
def test_noise_is_no_state(noise: bytes) -> None:
    assert open_state(NAME, noise) is None


def test_the_state_of_another_conversation_is_none() -> None:
    assert open_state("c2", seal_state(NAME, state_after("a")[1])) is None


@pytest.mark.parametrize("payload", [[[], [0], [], b""], [[], [], []], {"a": 1}])
def test_what_is_sound_and_no_state_is_none(payload: object) -> None:
    packed = msgspec.msgpack.encode(payload)
    sealed = b"\x01" + xxhash.xxh3_64_digest(NAME.encode() + b"\0" + packed) + packed

    assert open_state(NAME, sealed) is None
