"""The rules of optional content, read out plainly: what the engine is compared with.

It looks at every unit, in every round or at its turn, and knows nothing of heaps,
numbers, or of which unit a round touched.
"""

from collections.abc import Sequence

from deuz_compiler.records import reasons
from deuz_compiler.records.candidate import Candidate
from deuz_compiler.records.policy import Policy


class Reading:
    """The rules of the optional classes, read out plainly over names."""

    def __init__(self, candidates: Sequence[Candidate], policy: Policy) -> None:
        self.by_key = {candidate.key: candidate for candidate in candidates}
        self.policy = policy
        self.left = policy.budget_tokens
        self.inside: list[str] = []
        self.fate: dict[str, str] = {}

    def run(self) -> None:
        for key, candidate in self.by_key.items():
            if not candidate.scope.is_eligible:
                self.fate[key] = reasons.SCOPE_INELIGIBLE
        for requirement in ("preferred", "discretionary"):
            if self.policy.is_ranking_fixed:
                self.turns(requirement)
            while self.one_round(requirement):
                pass
        for key in self.by_key:
            self.fate.setdefault(key, reasons.DUPLICATE_CONTENT)

    def one_round(self, requirement: str) -> bool:
        contenders = []
        for members in self.units(requirement):
            adds, cost, new = self.outlook(members)
            if self.is_welcome(members):
                rank = (-self.best(members), -len(new), cost)
                contenders.append((rank, members, adds))
        if contenders:
            self.admit(min(contenders)[1])
        return bool(contenders)

    def turns(self, requirement: str) -> None:
        units = self.units(requirement)
        for members in sorted(units, key=lambda unit: (-self.best(unit), unit)):
            if any(self.is_open(key) for key in members) and self.is_welcome(members):
                self.admit(members)

    def best(self, members: list[str]) -> float:
        return max(self.by_key[key].score for key in members)

    def outlook(self, members: list[str]) -> tuple[list[str], int, set[str]]:
        adds = self.closure(members)
        cost = sum(self.by_key[key].tokens or 0 for key in adds)
        new = {k for key in members for k in self.by_key[key].coverage_keys}
        new -= {k for key in self.inside for k in self.by_key[key].coverage_keys}
        return adds, cost, new

    def is_welcome(self, members: list[str]) -> bool:
        adds, cost, new = self.outlook(members)
        if self.is_blocked(adds):
            self.drop(members, reasons.DEPENDENCY_BLOCKED)
        elif cost > self.left:
            self.drop(members, reasons.OVER_BUDGET)
        elif self.best(members) < self.policy.threshold and not new:
            self.drop(members, reasons.BELOW_THRESHOLD)
        else:
            return True
        return False

    def admit(self, members: list[str]) -> None:
        adds, cost, _ = self.outlook(members)
        self.left -= cost
        self.inside += adds
        for key in adds:
            self.fate[key] = reasons.RANKED if key in members else reasons.DEPENDENCY

    def units(self, requirement: str) -> list[list[str]]:
        found = []
        for key in sorted(self.by_key):
            if self.by_key[key].requirement == requirement and self.is_open(key):
                members = self.group(key)
                if members not in found:
                    found.append(members)
        return found

    def is_open(self, key: str) -> bool:
        identities = [self.by_key[other].content_identity for other in self.inside]
        return (
            key not in self.fate and self.by_key[key].content_identity not in identities
        )

    def group(self, key: str) -> list[str]:
        own = self.by_key[key].group_id
        if own is None:
            return [key]
        return [k for k in sorted(self.by_key) if self.by_key[k].group_id == own]

    def closure(self, members: list[str]) -> list[str]:
        found: list[str] = []
        wanted = list(members)
        while wanted:
            key = wanted.pop(0)
            if key not in found and key not in self.inside:
                found.append(key)
                wanted += [*self.by_key[key].depends_on, *self.group(key)]
        return found

    def is_blocked(self, adds: list[str]) -> bool:
        contents = [self.by_key[key].content_identity for key in [*self.inside, *adds]]
        if len(set(contents)) < len(contents):
            return True
        return any(not self.by_key[key].scope.is_eligible for key in adds)

    def drop(self, members: list[str], reason: str) -> None:
        for key in members:
            if self.is_open(key):
                self.fate[key] = reason
