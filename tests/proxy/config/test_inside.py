from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from deuz_proxy.config.inside import SkillsSource, TranscriptSource


def transcript(**fields: Any) -> TranscriptSource:
    return TranscriptSource.model_validate(
        {"type": "transcript", **fields}, context={"folder": Path("/etc/deuz")}
    )


def test_what_was_said_is_kept_in_this_process_for_thirty_days_by_default() -> None:
    made = transcript()

    assert (made.id, made.kind, made.url) == ("transcript", "transcript", "memory://")
    assert made.ttl_seconds == 30 * 86_400


def test_a_relative_file_starts_where_the_config_file_is() -> None:
    assert transcript(url="sqlite:///past.db").url == "sqlite:////etc/deuz/past.db"
    assert transcript(url="sqlite:////var/past.db").url == "sqlite:////var/past.db"


@pytest.mark.parametrize("url", ["", "sqlite:///", "past.db", "redis://localhost"])
def test_a_store_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="is not a transcript store"):
        transcript(url=url)


@pytest.mark.parametrize(
    ("field", "value"),
    [("ttl_seconds", 0), ("max_records", 0), ("max_records_per_scope", 1_000_001)],
)
def test_bounds_have_bounds(field: str, value: float) -> None:
    with pytest.raises(ValidationError):
        transcript(**{field: value})


def test_a_folder_of_skills_starts_where_the_config_file_is() -> None:
    made = SkillsSource.model_validate(
        {"type": "skills", "path": "skills"}, context={"folder": Path("/etc/deuz")}
    )

    assert (made.id, made.path) == ("skills", Path("/etc/deuz/skills"))
