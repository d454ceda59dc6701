"""What rendering adds, and what gives way when it adds too much.

Rules:
- The rendered cost is what is admitted, plus the block, plus each record's label, plus
  what stands between records; it is counted, not measured on the text.
- From the end of the order, the last discretionary record that nothing else in the list
  needs is dropped, with its whole group; then the cost is counted again.
- A dropped record keeps the figures of its admission in the trace.
- What came along with it stays, unless it is discretionary itself and now free.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import msgspec

from deuz_compiler.records import reasons
from deuz_compiler.records.policy import Policy
from deuz_compiler.selection.pool import Pool
from deuz_compiler.selection.tally import Tally


def rendered_tokens(tally: Tally, nodes: Sequence[int], policy: Policy) -> int:
    """Return what the nodes cost as one block."""
    return _block_tokens(_paid(tally, nodes), len(nodes), policy)


def repair(
    tally: Tally, nodes: Sequence[int], policy: Policy, *, limit_tokens: int
) -> list[int]:
    """Return the nodes without what had to go.

    Where no repair is legal the result still costs more than the limit.
    """
    paid = _paid(tally, nodes)
    if _block_tokens(paid, len(nodes), policy) <= limit_tokens:
        return list(nodes)
    kept = dict.fromkeys(nodes)
    loose = _Loose(tally.pool, nodes)
    while (cost := _block_tokens(paid, len(kept), policy)) > limit_tokens:
        tally.note_shortage(cost - limit_tokens)
        dropped = loose.pop_last() if policy.repair != "none" else ()
        if not dropped:
            break
        paid -= _paid(tally, dropped)
        for node in dropped:
            del kept[node]
            tally.decisions[node] = msgspec.structs.replace(
                tally.decisions[node], is_selected=False, reason=reasons.RENDER_OVERRUN
            )
    return list(kept)


def _paid(tally: Tally, nodes: Sequence[int]) -> int:
    return tally.cost(nodes) + sum([tally.pool.unpriced[node] for node in nodes])


def _block_tokens(paid: int, count: int, policy: Policy) -> int:
    over = policy.overhead
    if count == 0:
        return over.block_tokens if policy.empty_block == "rendered" else 0
    # What is paid holds a separator per record, and the first record needs none.
    return over.block_tokens + paid - over.between_tokens


class _Loose:
    """The discretionary nodes of a list that nothing else in it needs. Mutable.

    Groups count as one, by their first member. Direct needs are enough: whoever needs a
    node through others needs one of these others, and they are all in the list.
    """

    def __init__(self, pool: Pool, nodes: Sequence[int]) -> None:
        self._pool = pool
        self._nodes = nodes
        self._place = {node: place for place, node in enumerate(nodes)}
        self._needs: dict[int, int] = {}
        for node in nodes:
            for head in self._needed(node):
                self._needs[head] = self._needs.get(head, 0) + 1
        self._free = [-self._place[node] for node in nodes if self._is_free(node)]
        heapify(self._free)

    def pop_last(self) -> tuple[int, ...]:
        """Take out the loose node that stands last, with its group; () if none is."""
        while self._free:
            node = self._nodes[-heappop(self._free)]
            if node in self._place:
                dropped = self._pool.members(node)
                self._take_out(dropped)
                return dropped
        return ()

    def _take_out(self, dropped: Sequence[int]) -> None:
        for node in dropped:
            del self._place[node]
        for node in dropped:
            for head in self._needed(node):
                self._needs[head] -= 1
                self._release(head)

    def _release(self, head: int) -> None:
        for node in self._pool.members(head):
            if node in self._place and self._is_free(node):
                heappush(self._free, -self._place[node])

    def _needed(self, node: int) -> list[int]:
        """Return the groups outside its own that a node needs directly."""
        head_of = self._pool.members
        heads = dict.fromkeys(head_of(other)[0] for other in self._pool.edges[node])
        return [head for head in heads if head != head_of(node)[0]]

    def _is_free(self, node: int) -> bool:
        if self._pool.requirements[node] != "discretionary":
            return False
        return not self._needs.get(self._pool.members(node)[0])
