from dataclasses import FrozenInstanceError

import pytest

from deuz_testing.line import Told, make_config, make_runtime


def test_a_runtime_is_swapped_as_a_whole_never_changed() -> None:
    runtime = make_runtime(make_config(), Told())

    with pytest.raises(FrozenInstanceError):
        runtime.config = make_config(mode="off")  # type: ignore[misc]
