"""The order in which selected candidates stand.

Rules:
- Relevance plays no part: the same records give the same bytes, whatever they score.
- Terms come from the policy (`requirement`: mandatory first; `role`: as the policy
  lists them, unknown ones last; `source`: likewise); ties end at the key.
"""

from collections.abc import Callable, Iterable, Mapping

from deuz_compiler.records.candidate import REQUIREMENTS
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.pool import Pool

_Place = Callable[[int], int]


def ordered(pool: Pool, nodes: Iterable[int], policy: Policy) -> list[int]:
    """Return the nodes in the order in which they are placed."""
    found = sorted(nodes)
    if not found[1:]:
        return found
    places: Mapping[str, _Place | None] = {
        "requirement": _place(REQUIREMENTS, lambda node: pool.requirements[node]),
        "role": _place(policy.roles, lambda node: pool.candidates[node].role),
        "source": _place(policy.sources, lambda node: pool.candidates[node].source),
    }
    # One sort for each term, the least first, costs half of what making keys does.
    for term in reversed(policy.ordering):
        if (place := places[term]) is not None:
            found.sort(key=place)
    return found


def _place(names: Iterable[str], name_of: Callable[[int], str]) -> _Place | None:
    """Return where a node stands by its name; None where no name is listed."""
    known: dict[str, int] = {}
    for place, name in enumerate(names):
        known.setdefault(name, place)
    if not known:
        return None
    return lambda node: known.get(name_of(node), len(known))
