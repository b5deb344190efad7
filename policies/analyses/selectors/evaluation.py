"""Evaluates selectors on groups of devices, with a limit on the work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.selectors.report import DeviceVerdict, Truth
from policies.cel import CelRuntimeError, begin_evaluation, steps_spent
from policies.devices.conditions import describe_failure
from policies.kubernetes.phrases import shorten
from policies.kubernetes.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.selectors.selector_sets import CompiledSelector
    from policies.cel import Selector
    from policies.devices.published_devices import DeviceGroup
    from policies.kubernetes.work import Work

__all__ = ["Evaluator", "GroupVerdict"]

_EACH = 20
"""Added to the cost of every evaluation."""
_CHEAP = 2_000
"""Up to this estimate, the estimate is used as the cost of an evaluation."""
_MEASURED = 256
"""Evaluations of each selector whose cost is counted, if they are cheap."""
_LONGEST = 300
"""Characters of a reason or an error."""


class GroupVerdict(NamedTuple):
    """The result of the selectors for a group of alike devices."""

    verdict: DeviceVerdict
    truths: tuple[tuple[Truth, ...], ...] = ()
    excluded_by: tuple[int, int] | None = None
    why: str = ""
    error: str = ""

    @property
    def only_clause(self) -> tuple[int, int] | None:
        """The only condition that is not true, if there is just one, and it is false."""
        found = [
            (number, place)
            for number, truths in enumerate(self.truths)
            for place, truth in enumerate(truths)
            if truth is not Truth.TRUE
        ]
        return found[0] if len(found) == 1 and self.verdict is DeviceVerdict.EXCLUDED else None


NOT_EVALUATED = GroupVerdict(DeviceVerdict.NOT_EVALUATED)


@dataclass(slots=True)
class Evaluator:
    """Evaluates the selectors of one set until the work reaches its limit."""

    selectors: Sequence[CompiledSelector]
    work: Work
    """In the units of CEL's costs."""
    costs: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The least and the highest cost of each selector."""
    _measured: dict[int, int] = field(default_factory=dict)

    def verdict(self, group: DeviceGroup) -> GroupVerdict:
        """The result of the selectors for a group.

        As in the scheduler, the first selector that is not true decides. The conditions of the others are evaluated
        too, unless the class excludes the devices: a request never gets devices outside its class.
        """
        check_cancelled()
        if self.work.left <= 0:
            return NOT_EVALUATED
        decided: GroupVerdict | None = None
        truths: list[tuple[Truth, ...]] = []
        for number, each in enumerate(self.selectors):
            if each.selector is None:
                return NOT_EVALUATED
            of_clauses = self._clause_truths(each, group)
            truths.append(of_clauses)
            if decided is None:
                decided = self._decision(number, each, of_clauses, group)
            if decided is not None and each.owner:
                break
        rest = tuple((Truth.SKIPPED,) * len(each.clauses) for each in self.selectors[len(truths) :])
        return (decided or GroupVerdict(DeviceVerdict.MATCHES))._replace(truths=(*truths, *rest))

    def _clause_truths(self, each: CompiledSelector, group: DeviceGroup) -> tuple[Truth, ...]:
        return tuple(
            Truth.FAILS if part.selector is None else _truth_of(self._evaluate(part.selector, group))
            for part in each.clauses
        )

    def _decision(
        self, number: int, each: CompiledSelector, truths: Sequence[Truth], group: DeviceGroup
    ) -> GroupVerdict | None:
        """The verdict of one selector; None if it is true."""
        if each.selector is None:
            return NOT_EVALUATED
        verdict = self._evaluate(each.selector, group, number)
        if verdict is True:
            return None
        if isinstance(verdict, CelRuntimeError):
            return GroupVerdict(DeviceVerdict.FAILS, error=shorten(verdict.message, _LONGEST))
        place = next((place for place, truth in enumerate(truths) if truth is Truth.FALSE), -1)
        text = each.clauses[place].text if place >= 0 else each.text
        why = shorten(describe_failure(text, group.value_of).text, _LONGEST)
        return GroupVerdict(DeviceVerdict.EXCLUDED, excluded_by=(number, place), why=why)

    def _evaluate(self, selector: Selector, group: DeviceGroup, number: int | None = None) -> bool | CelRuntimeError:
        """Evaluate once; with a number, record the cost for the selector with that number."""
        is_measured = number is not None and self._measured.get(number, 0) < _MEASURED
        begin_evaluation()
        if selector.max_cost <= _CHEAP and not is_measured:
            verdict, cost = selector.verdict(group.sample), selector.max_cost
        else:
            verdict, cost = selector.measure(group.sample)
            if number is not None:
                self._measured[number] = self._measured.get(number, 0) + 1
                least, most = self.costs.get(number, (cost, cost))
                self.costs[number] = min(least, cost), max(most, cost)
        self.work.spend(cost + steps_spent() + _EACH)
        return verdict


def _truth_of(verdict: bool | CelRuntimeError) -> Truth:
    if isinstance(verdict, CelRuntimeError):
        return Truth.FAILS
    return Truth.TRUE if verdict else Truth.FALSE
