"""Values of the compiler cost the cyclic collector nothing."""

import importlib
import pkgutil

import msgspec

import deuz_compiler


def list_values() -> list[type[msgspec.Struct]]:
    for module in pkgutil.walk_packages(deuz_compiler.__path__, "deuz_compiler."):
        importlib.import_module(module.name)
    found: list[type[msgspec.Struct]] = []
    waiting = [msgspec.Struct]
    while waiting:
        kinds = waiting.pop().__subclasses__()
        waiting += kinds
        found += [kind for kind in kinds if kind.__module__.startswith("deuz_compiler")]
    return found


def test_frozen_values_are_not_tracked() -> None:
    # Made of what was there before them, and never changed: no cycle can hold one. Of
    # those that conversations are remembered by, a process has hundred thousands.
    frozen = [kind for kind in list_values() if kind.__struct_config__.frozen]
    assert len(frozen) > 100
    assert [kind.__qualname__ for kind in frozen if kind.__struct_config__.gc] == []
