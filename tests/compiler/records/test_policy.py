from collections.abc import Sequence

import pytest

from deuz_compiler.records.policy import Policy, RankTerm


@pytest.mark.parametrize(
    ("ranking", "is_fixed"),
    [
        (("priority", "score", "source"), True),
        ((), True),
        (("score", "coverage"), False),
        (("cost",), False),
    ],
)
def test_ranking_is_fixed_unless_a_term_looks_at_what_is_in(
    ranking: Sequence[RankTerm], is_fixed: bool
) -> None:
    policy = Policy(budget_tokens=0, ranking=tuple(ranking))

    assert policy.is_ranking_fixed is is_fixed
