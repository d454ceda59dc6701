"""The hypothesis settings of the copy: fixed examples, so that results repeat."""

from hypothesis import Phase, settings

settings.register_profile(
    "mutants",
    max_examples=60,
    derandomize=True,
    deadline=None,
    database=None,
    # A killed mutant is not to be understood, only counted: nothing is shrunk.
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("mutants")
