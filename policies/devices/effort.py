"""Effort: what one review may spend on selectors, and the devices that they select."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.cel import STORED, CelCompileError, CelRuntimeError, begin_evaluation, compile_selector, steps_spent
from policies.devices.published_devices import Evaluation
from policies.kubernetes.bounds import Work, count_work

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from policies.cel import Selector
    from policies.devices.published_devices import DeviceGroup, PublishedDevices
    from policies.kubernetes.objects import FieldPath


T = TypeVar("T")

MOST_TEXT = 12 * 1024
"""Bytes of the selectors of one object that are compared with the cluster; half a second at the worst, aside from the event
loop (see `policies.kubernetes.bounds`)."""
MOST_OF_CLASSES = 4 * 1024
"""Bytes of the selectors of the classes that it names, beside what the object leaves of its own bytes."""
EACH = 64
"""Bytes that every selector counts for beside its own."""
_MOST_OF_HINTS = 4 * 1024
"""Bytes of the conditions of selectors that are compiled each by itself, to find near misses."""
_MOST_READ = 600_000
"""Characters of selectors that are gone through once more for each attribute that devices may lack."""
MOST_COST_OF_ALL = 250_000
"""The most that evaluating all selectors on devices may cost by CEL's own measure; about a quarter of a second."""
_MOST_STEPS = 500_000
"""The same for what CEL's costs do not see."""
_MOST_COMPARED = 120_000
"""Devices whose attributes are compared for constraints, each constraint counted by itself; a second on a big cluster."""


class Effort:
    """The work of one review. It is spent in the order of the rules."""

    def __init__(self, *, compares: bool = True) -> None:
        """Begin with all of it, or with nothing for comparisons with the cluster."""
        self.compares = compares
        self.cost = Work(MOST_COST_OF_ALL)
        """The cost that evaluations may have."""
        self.own = Work(MOST_TEXT if compares else 0)
        """The bytes of the selectors of the object itself."""
        self._classes = Work(MOST_OF_CLASSES if compares else 0)
        self._hints = Work(_MOST_OF_HINTS if compares else 0)
        self._reading = Work(_MOST_READ)
        self._steps = Work(_MOST_STEPS)
        self._compared = Work(_MOST_COMPARED)
        self.was_cut = False
        """True if something was not compared with the cluster, beside selectors of the object itself."""
        self._admitted: dict[FieldPath | str, bool] = {}
        self._compiled: dict[str, Selector | CelCompileError] = {}
        self._evaluated: dict[Selector, set[DeviceGroup]] = {}
        self._made: dict[Hashable, Any] = {}

    def cache(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, called once for a key."""
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def compare(self, devices: int) -> bool:
        """True if so many devices more may be compared."""
        count_work(5 * devices)
        admitted = self._compared.spend(devices)
        self.was_cut = self.was_cut or not admitted
        return admitted

    def reserve(self, texts: Sequence[str]) -> None:
        """Leave to classes what the selectors of the object itself will not need."""
        self._classes.left += max(self.own.left - size_of(texts), 0)

    def admit_own(self, path: FieldPath, texts: Sequence[str]) -> bool:
        """True if the selectors at a path of the object, all or none, are within the bounds."""
        admitted = self._admitted.get(path)
        if admitted is None:
            admitted = self._admitted[path] = self.own.take(size_of(texts))
        return admitted

    def admit_class(self, name: str, texts: Sequence[str]) -> bool:
        """True if the selectors of a class that the object names, all or none, are within the bounds."""
        admitted = self._admitted.get(name)
        if admitted is None:
            admitted = self._admitted[name] = self._classes.take(size_of(texts))
            self.was_cut = self.was_cut or not admitted
        return admitted

    def admit_hints(self, texts: Sequence[str]) -> bool:
        """True if parts of selectors, all or none, are within the bounds; compiled parts cost nothing."""
        return self._hints.take(size_of([text for text in texts if text not in self._compiled]))

    def admit_reading(self, characters: int) -> bool:
        """True if selectors may be gone through once more."""
        count_work(characters // 4)
        admitted = self._reading.take(characters)
        self.was_cut = self.was_cut or not admitted
        return admitted

    def compile(self, text: str) -> Selector | CelCompileError:
        """A selector that was admitted, as the scheduler compiles it, or why it does not compile."""
        if text not in self._compiled:
            try:
                self._compiled[text] = compile_selector(text, STORED)
            except CelCompileError as error:
                self._compiled[text] = error.without_traceback()
        return self._compiled[text]

    def admit_evaluation(self, selector: Selector, groups: Sequence[DeviceGroup]) -> bool:
        """True if evaluating a selector on groups of devices is within the bounds. The same groups count once."""
        asked = self._evaluated.setdefault(selector, set())
        new = len({*groups} - asked)
        admitted = self._steps.left >= 0 and self.cost.take(selector.max_cost * new)
        if admitted:
            asked.update(groups)
        self.was_cut = self.was_cut or not admitted
        return admitted

    def verdicts(self, selector: Selector, groups: Sequence[DeviceGroup]) -> list[bool | CelRuntimeError] | None:
        """The verdicts of a selector on groups of devices; None where that is too much work."""
        if not self.admit_evaluation(selector, groups):
            return None
        found: list[bool | CelRuntimeError] = []
        for group in groups:
            verdict = selector.cached_verdict(group.sample)
            if verdict is None:
                begin_evaluation()
                verdict = selector.verdict(group.sample)
                if not self._steps.spend(steps_spent()):
                    self.was_cut = True
                    return None
            found.append(verdict)
        return found


def size_of(texts: Sequence[str]) -> int:
    """The bytes that selectors count for."""
    return len("".join(texts).encode(errors="surrogatepass")) + EACH * len(texts)


class DeviceSelection(NamedTuple):
    """The groups of devices that selectors match, and those on which one fails."""

    matched: Sequence[DeviceGroup]
    failed: Sequence[tuple[DeviceGroup, str]]
    """The groups on which a selector fails, each with CEL's message."""
    complete: bool = True
    """False if evaluating the selectors on all devices would be too much work; then there are no matches."""


def select_devices(
    known: PublishedDevices, groups: Iterable[DeviceGroup], selectors: Iterable[Selector], effort: Effort
) -> DeviceSelection:
    """The groups that all selectors match; each selector is evaluated on the matches of the one before."""
    matched, failed = tuple(groups), list[tuple["DeviceGroup", str]]()
    for selector in selectors:
        evaluation = _evaluate(known, matched, selector, effort)
        if evaluation is None:
            effort.was_cut = True
            return DeviceSelection((), failed, complete=False)
        matched = tuple(evaluation.matched)
        failed += evaluation.failed
    return DeviceSelection(matched, failed)


def _evaluate(
    known: PublishedDevices, groups: tuple[DeviceGroup, ...], selector: Selector, effort: Effort
) -> Evaluation | None:
    """The verdicts of a selector on groups of devices; None if it is too much work."""
    key = selector.number, groups
    found = known.evaluations.get(key)
    if found is not None:
        return found if effort.admit_evaluation(selector, found.groups) else None
    apart = known.divide(groups, selector.reads)
    verdicts = None if apart is None else effort.verdicts(selector, apart)
    if apart is None or verdicts is None:
        return None
    found = Evaluation(
        apart,
        tuple(group for group, verdict in zip(apart, verdicts, strict=True) if verdict is True),
        [
            (group, verdict.message)
            for group, verdict in zip(apart, verdicts, strict=True)
            if isinstance(verdict, CelRuntimeError)
        ],
    )
    known.evaluations.put(key, found, len(groups) + found.weight)
    return found
