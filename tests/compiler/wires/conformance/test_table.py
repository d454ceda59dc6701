"""A wire is whole or it is not there."""

from typing import get_args

from deuz_compiler.wires.table import WIRES
from deuz_proxy.config.endpoints import UNTOUCHED, Api
from deuz_proxy.observe.names import provider_of
from deuz_proxy.observe.vocabulary import WIRES as WIRE_LABELS
from deuz_testing.specimens.form import Specimens
from deuz_testing.specimens.table import SPECIMENS

# One prompt has no turns that laws could be about: it is tested by itself.
PROMPTS = {"ollama_generate"}


def test_every_wire_has_its_specimens() -> None:
    wires = WIRES.keys() - PROMPTS
    assert SPECIMENS.keys() == wires, "write deuz_testing/specimens/WIRE.py"


def test_a_wires_rules_bear_its_name() -> None:
    assert {name: wire.rules.wire for name, wire in WIRES.items()} == {
        name: name for name in WIRES
    }


def test_every_wire_is_reached_by_a_path_and_has_its_label() -> None:
    assert set(get_args(Api)) - {""} - UNTOUCHED == WIRES.keys()
    assert WIRES.keys() <= set(WIRE_LABELS)
    assert all(map(provider_of, WIRES))


def test_every_law_is_asked_with_a_specimen(s: Specimens) -> None:
    assert s.malformed
    assert s.overflows
    assert s.others
    assert s.overflow_streams
    assert s.other_streams
