"""Plan -> whether its rows are bounded by changes: a small change leaves them few."""

from __future__ import annotations

from hybridview.algebra.plan import (
    Changes,
    Constant,
    Empty,
    Join,
    Outer,
    Plan,
    Reference,
    Restrict,
    Scan,
    Semi,
    children,
)


class Bounds:
    """Remembers its answers by identity: plans are graphs, their parts are used again and again."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Plan, bool]] = {}

    def holds(self, plan: Plan) -> bool:
        """Say whether all rows of a plan are those of changes, or are found by keys of changes."""
        if id(plan) not in self.known:
            # Keeps the plan alive: an id may be used again once its object is gone.
            self.known[id(plan)] = (plan, self._holds(plan))
        return self.known[id(plan)][1]

    def _holds(self, plan: Plan) -> bool:
        match plan:
            case Changes() | Empty() | Constant() | Reference() | Restrict():
                return True
            case Scan():
                return plan.near is not None
            case Join(left, right, condition):
                either = self.holds(left) or self.holds(right)
                both = self.holds(left) and self.holds(right)
                return both or (either and condition is not None)
            case Semi(left, right):
                return self.holds(left) or (not plan.anti and self.holds(right))
            case Outer(left):
                return self.holds(left)
            case _:
                return all(map(self.holds, children(plan)))
