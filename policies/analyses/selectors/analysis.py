"""Analyses of selectors: the devices that match, why others do not, and the effect of an edit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.selectors.selector_report import (
    Analysis,
    Clause,
    DeviceChange,
    DeviceRow,
    DeviceVerdict,
    EditComparison,
    EditEffect,
    ExcludedBy,
    SelectorProblem,
    SelectorReport,
    Truth,
)
from policies.analyses.selectors.selector_sets import compiled_selectors, edited_selector_set, reads_of
from policies.cel import CelRuntimeError, begin_evaluation, steps_spent
from policies.claims import CLAIM_CHECKS
from policies.claims.claim_subject import Facts, Subject
from policies.devices.conditions import describe_failure
from policies.devices.published_devices import DeviceGroup, published_devices
from policies.kubernetes.bounds import Work, check_cancelled
from policies.kubernetes.names import format_count, printable, shorten
from policies.kubernetes.objects import namespace_of
from policies.kubernetes.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from policies.analyses.selectors.selector_sets import CompiledSelector, SelectorSet
    from policies.cel import Selector
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


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
    excluded_by: ExcludedBy | None = None
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
            of_clauses = tuple(
                Truth.FAILS if part.selector is None else _truth_of(self._evaluate(part.selector, group))
                for part in each.clauses
            )
            truths.append(of_clauses)
            if decided is None:
                decided = self._decision(number, each, of_clauses, group)
            if decided is not None and each.owner:
                break
        rest = tuple((Truth.SKIPPED,) * len(each.clauses) for each in self.selectors[len(truths) :])
        return (decided or GroupVerdict(DeviceVerdict.MATCHES))._replace(truths=(*truths, *rest))

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
        place = next((place for place, truth in enumerate(truths) if truth is Truth.FALSE), None)
        text = each.text if place is None else each.clauses[place].text
        why = shorten(describe_failure(text, group.value_of).text, _LONGEST)
        return GroupVerdict(DeviceVerdict.EXCLUDED, excluded_by=ExcludedBy(number, place), why=why)

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


MOST_ROWS = 100
"""Rows of an analysis, and changes of a comparison."""
MOST_WORK = 5_000_000
"""The limit for evaluating the selectors, in units of CEL's cost; about ten seconds."""
_MOST_PROBLEMS = 20
_MOST_NAMES = 5
_ORDER = {DeviceVerdict.MATCHES: 0, DeviceVerdict.FAILS: 1, DeviceVerdict.EXCLUDED: 2, DeviceVerdict.NOT_EVALUATED: 3}


def analyze(
    selector_set: SelectorSet, view: ClusterView, settings: GPUAdmissionPolicy, edit: str | None = None
) -> Analysis:
    """The devices of a cluster that the selectors of a set match, and why the others do not.

    Only selectors are evaluated: it does not matter whether devices are in use, tainted, or on nodes where a pod can run.

    Args:
        selector_set: the selectors.
        view: the cluster.
        settings: which version of NVIDIA's driver the cluster has, if they say so.
        edit: an expression in place of those of the set, to compare both; None for no comparison.
    """
    variants = [selector_set] if edit is None else [selector_set, edited_selector_set(selector_set, edit)]
    compiled = [compiled_selectors(each, Facts(view, settings)) for each in variants]
    groups = _groups(view, [each for selectors in compiled for each in selectors])
    found = [
        _evaluation_of(each, selectors, groups, view, settings)
        for each, selectors in zip(variants, compiled, strict=True)
    ]
    if edit is None:
        return found[0].analysis
    before, after = found
    return replace(before.analysis, comparison=_comparison(before, after, groups or ()))


class _Evaluation(NamedTuple):
    """An analysis, and the verdict for each group of devices; no verdicts if no device was evaluated."""

    analysis: Analysis
    verdicts: Sequence[GroupVerdict]


def _groups(view: ClusterView, selectors: Sequence[CompiledSelector]) -> Sequence[DeviceGroup] | None:
    """The devices of the cluster, grouped by everything that a selector reads; None if they are unknown."""
    known = view.derive(published_devices)
    if known is UNKNOWN:
        return None
    parts = known.divide(known.groups, reads_of(each for each in selectors if each.selector is not None))
    return [DeviceGroup([device]) for group in known.groups for device in group.devices] if parts is None else parts


def _evaluation_of(
    selector_set: SelectorSet,
    selectors: Sequence[CompiledSelector],
    groups: Sequence[DeviceGroup] | None,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> _Evaluation:
    compiles = all(each.selector is not None for each in selectors)
    evaluator = Evaluator(selectors, Work(MOST_WORK))
    verdicts = [evaluator.verdict(group) for group in groups] if compiles and groups is not None else []
    rows = _rows(groups or (), verdicts) if verdicts else []
    total = None if groups is None else sum(len(group.devices) for group in groups)
    counts = {verdict: sum(row.count for row in rows if row.verdict is verdict) for verdict in DeviceVerdict}
    analysis = Analysis(
        label=printable(selector_set.label),
        selectors=tuple(
            SelectorReport(
                owner=printable(each.owner),
                text=each.text,
                estimate=None if each.selector is None else each.selector.max_cost,
                costs=evaluator.costs.get(number),
                clauses=tuple(
                    _clause_report(clause.text, (number, place), groups or (), verdicts)
                    for place, clause in enumerate(each.clauses)
                ),
            )
            for number, each in enumerate(selectors)
        ),
        problems=tuple(_problems(selector_set, Facts(view, settings))),
        compiles=compiles,
        devices=total,
        matched=counts[DeviceVerdict.MATCHES],
        excluded=counts[DeviceVerdict.EXCLUDED],
        failed=counts[DeviceVerdict.FAILS],
        not_evaluated=counts[DeviceVerdict.NOT_EVALUATED],
        rows=tuple(rows[:MOST_ROWS]),
        rows_left_out=max(0, len(rows) - MOST_ROWS),
        notes=tuple(
            _notes(
                selector_set,
                selectors,
                counts[DeviceVerdict.NOT_EVALUATED],
                Facts(view, settings),
                has_devices=total is not None,
            )
        ),
    )
    return _Evaluation(analysis, verdicts)


def _rows(groups: Iterable[DeviceGroup], verdicts: Iterable[GroupVerdict]) -> list[DeviceRow]:
    merged: defaultdict[Hashable, list[tuple[DeviceGroup, GroupVerdict]]] = defaultdict(list)
    for group, verdict in zip(groups, verdicts, strict=True):
        merged[_kind(group), verdict].append((group, verdict))
    rows = [_row([group for group, _ in each], each[0][1]) for each in merged.values()]
    return sorted(rows, key=_rank)


def _rank(row: DeviceRow) -> tuple[int, int, int, str]:
    """Devices that a class excludes come after those that the selectors themselves exclude."""
    return _ORDER[row.verdict], -row.excluded_by.selector if row.excluded_by else 0, -row.count, row.kind


def _row(groups: Sequence[DeviceGroup], verdict: GroupVerdict) -> DeviceRow:
    nodes = {node for group in groups for node in group.by_node}
    labels: list[str] = []
    for group in groups:
        labels += [printable(device.label) for device in group.devices[: _MOST_NAMES - len(labels)]]
    return DeviceRow(
        kind=_kind(groups[0]),
        count=sum(len(group.devices) for group in groups),
        nodes=len(nodes - {""}),
        devices=tuple(labels),
        verdict=verdict.verdict,
        truths=verdict.truths,
        excluded_by=verdict.excluded_by,
        why=verdict.why,
        error=verdict.error,
    )


def _kind(group: DeviceGroup) -> str:
    """The kind of some devices for people: the product of GPUs, else the type and the driver."""
    if any(name.rpartition("/")[2] == "productName" for name in group.first.attributes):
        return printable(group.product)
    kind = next((value for name, value in group.first.attributes.items() if name.endswith("/type")), "device")
    return printable(f"{kind} of {group.first.driver}")


def _clause_report(
    text: str, place: tuple[int, int], groups: Sequence[DeviceGroup], verdicts: Sequence[GroupVerdict]
) -> Clause:
    number, part = place
    true = false = failed = excluded = alone = 0
    for group, verdict in zip(groups, verdicts, strict=False):
        if not verdict.truths:
            continue
        size, truth = len(group.devices), verdict.truths[number][part]
        true += size * (truth is Truth.TRUE)
        false += size * (truth is Truth.FALSE)
        failed += size * (truth is Truth.FAILS)
        excluded += size * (verdict.excluded_by == ExcludedBy(number, part))
        alone += size * (verdict.only_clause == place)
    return Clause(text, true, false, failed, excluded, alone)


def _problems(selector_set: SelectorSet, facts: Facts) -> Iterable[SelectorProblem]:
    """The findings of review about the selectors."""
    document = selector_set.document
    version = str(document.get("apiVersion") or "").rpartition("/")[2]
    subject = Subject(document, None, str(document.get("kind")), version, namespace_of(document), facts)
    facts.effort.reserve([selector.text for selector in subject.selectors])
    start = (*selector_set.owner, "selectors")
    found = [each for each in CLAIM_CHECKS.run(subject) if tuple(each.path)[: len(start)] == start]
    return [_problem(each) for each in found[:_MOST_PROBLEMS]]


def _problem(finding: Finding) -> SelectorProblem:
    place = finding.place
    line, column = (0, 0) if place is None else (place.line, place.column)
    return SelectorProblem(finding.rule.id, printable(finding.message), printable(finding.remedy), line, column)


def _notes(
    selector_set: SelectorSet, selectors: Sequence[CompiledSelector], unknown: int, facts: Facts, *, has_devices: bool
) -> Iterable[str]:
    if not has_devices:
        yield "no ResourceSlices are known, so the devices are unknown"
    name = selector_set.device_class
    if name and not any(each.owner for each in selectors):
        found = facts.device_class(name)
        state = "does not exist" if found is None else "is unknown" if found is UNKNOWN else "has no selectors"
        yield printable(f"DeviceClass {name} {state}, so all devices are evaluated")
    broken = next((each.owner for each in selectors if each.owner and each.selector is None), "")
    if broken:
        yield printable(f"a selector of {broken} does not compile, so no device was evaluated")
    if unknown:
        yield f"{format_count(unknown, 'device')} left out: evaluating the selectors on all devices is too much work"


def _comparison(before: _Evaluation, after: _Evaluation, groups: Sequence[DeviceGroup]) -> EditComparison:
    changes: defaultdict[Hashable, list[tuple[DeviceGroup, GroupVerdict, EditEffect]]] = defaultdict(list)
    totals = dict.fromkeys(EditEffect, 0)
    for group, old, new in zip(groups, before.verdicts, after.verdicts, strict=False):
        change = _change(old.verdict, new.verdict)
        if change is not None:
            totals[change] += len(group.devices)
            changes[change, _kind(group), new].append((group, new, change))
    rows = [DeviceChange(each[0][2], _row([group for group, *_ in each], each[0][1])) for each in changes.values()]
    rows.sort(key=lambda each: -each.row.count)
    return EditComparison(
        edited=after.analysis,
        gained=totals[EditEffect.GAINED],
        lost=totals[EditEffect.LOST],
        failing=totals[EditEffect.FAILS],
        changes=tuple(rows[:MOST_ROWS]),
        changes_left_out=max(0, len(rows) - MOST_ROWS),
    )


def _change(old: DeviceVerdict, new: DeviceVerdict) -> EditEffect | None:
    if DeviceVerdict.NOT_EVALUATED in (old, new) or old is new:
        return None
    if new is DeviceVerdict.FAILS:
        return EditEffect.FAILS
    if new is DeviceVerdict.MATCHES:
        return EditEffect.GAINED
    return EditEffect.LOST if old is DeviceVerdict.MATCHES else None
