import os
from pathlib import Path

import pytest

from deuz_proxy.config.file import ConfigFile
from deuz_proxy.errors import ConfigInvalid


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deuz.yaml"
    path.write_text("on_error: open\n")
    return path


def test_a_file_that_stays_as_it_is_has_not_changed(path: Path) -> None:
    file = ConfigFile(path)

    assert not file.has_changed()


def test_a_change_is_told_once(path: Path) -> None:
    file = ConfigFile(path)

    path.write_text("on_error: closed\n")

    assert file.has_changed()
    assert not file.has_changed()


def test_touching_a_file_is_no_change(path: Path) -> None:
    file = ConfigFile(path)

    os.utime(path, ns=(1, 1))

    assert not file.has_changed()


def test_a_change_of_the_same_length_is_a_change(path: Path) -> None:
    file = ConfigFile(path)

    path.write_text("on_error: opex\n")

    assert file.has_changed()


def test_a_file_put_in_its_place_is_a_change(path: Path, tmp_path: Path) -> None:
    file = ConfigFile(path)
    other = tmp_path / "other.yaml"
    other.write_text("on_error: closed\n")

    other.replace(path)

    assert file.has_changed()


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    for name, word in (("old", "open"), ("new", "closed")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "deuz.yaml").write_text(f"on_error: {word}\n")
    (tmp_path / "current").symlink_to("old")
    file = ConfigFile(tmp_path / "current" / "deuz.yaml")

    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").replace(tmp_path / "current")

    assert file.has_changed()
    assert file.load({}).on_error == "closed"


def test_a_file_that_goes_away_and_comes_back_changed_twice(path: Path) -> None:
    file = ConfigFile(path)

    path.unlink()
    is_gone = (file.has_changed(), file.has_changed())
    path.write_text("on_error: open\n")
    is_back = (file.has_changed(), file.has_changed())

    assert is_gone == (True, False)
    assert is_back == (True, False)


def test_an_invalid_file_does_not_load_and_a_mended_one_does(path: Path) -> None:
    file = ConfigFile(path)
    path.write_text("on_error: perhaps\n")

    with pytest.raises(ConfigInvalid, match="on_error"):
        file.load({})

    path.write_text("on_error: closed\n")
    assert file.load({}).on_error == "closed"
