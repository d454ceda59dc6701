"""The hypothesis settings of the copy: fixed examples, so that results repeat."""

from hypothesis import settings

settings.register_profile(
    "mutants", max_examples=60, derandomize=True, deadline=None, database=None
)
settings.load_profile("mutants")
