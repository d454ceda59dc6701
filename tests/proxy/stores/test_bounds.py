import dataclasses

import pytest

from deuz_proxy.stores.bounds import Bounds


def test_bounds_do_not_change_under_a_store() -> None:
    bounds = Bounds(1, 2, 3.0)

    with pytest.raises(dataclasses.FrozenInstanceError):
        bounds.max_entries = 5  # type: ignore[misc]  # What is tested.
