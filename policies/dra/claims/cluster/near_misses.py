"""Near misses: devices that fail only one condition of a request, and what they have instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from policies.dra.cel import CelCompileError, split_conjuncts
from policies.dra.claims.cluster.wording import devices
from policies.dra.device_groups import device_count
from policies.dra.failed_conditions import describe_failure
from policies.phrases import inflect

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.cel import CelRuntimeError, Read, Selector
    from policies.dra.claims.effort import Effort
    from policies.dra.device_groups import DeviceGroup
    from policies.dra.published_devices import PublishedDevices

__all__ = ["near_misses"]

_MOST_CONDITIONS = 32
_TOLD = 2
_VALUES = 3


def near_misses(known: PublishedDevices, groups: Sequence[DeviceGroup], texts: Iterable[str], effort: Effort) -> str:
    """Describe what devices that almost match fail; empty if none comes near, or it is too much work."""
    conditions = [conjunct.text for text in texts for conjunct in split_conjuncts(text)]
    if len(conditions) > _MOST_CONDITIONS:
        return ""
    if not effort.admit_hints(conditions):
        return ""
    selectors = [each for text in conditions if not isinstance(each := effort.compile(text), CelCompileError)]
    apart: list[DeviceGroup] | None = list(groups)
    for selector in selectors:
        apart = None if apart is None else known.divide(apart, selector.reads)
    if apart is None or len(selectors) < len(conditions):
        return ""
    rows = [effort.verdicts(selector, apart) for selector in selectors]
    verdicts = [row for row in rows if row is not None]
    if len(verdicts) < len(rows):
        return ""
    failing = _groups_by_failed_term(selectors, apart, verdicts)
    return "".join(
        f"; {_phrase(selector, missing)}"
        for selector, missing in sorted(failing.items(), key=lambda item: -device_count(item[1]))[:_TOLD]
    )


def _groups_by_failed_term(
    selectors: Sequence[Selector], groups: Sequence[DeviceGroup], verdicts: Sequence[Sequence[bool | CelRuntimeError]]
) -> dict[Selector, list[DeviceGroup]]:
    """Groups by the one term that they fail."""
    found: defaultdict[Selector, list[DeviceGroup]] = defaultdict(list)
    for group, row in zip(groups, zip(*verdicts, strict=True), strict=True):
        failed = [selector for selector, verdict in zip(selectors, row, strict=True) if verdict is not True]
        if len(failed) == 1:
            found[failed[0]].append(group)
    return found


def _phrase(selector: Selector, groups: Sequence[DeviceGroup]) -> str:
    count = device_count(groups)
    has = describe_failure(selector.text, lambda read: _values(read, groups)).text
    subject, verb = ("it", "fails") if count == 1 else ("they", "fail")
    return f"{devices(count)} {verb} only one condition: {subject} {inflect(has, count)}"


def _values(read: Read, groups: Sequence[DeviceGroup]) -> str | None:
    """What devices have, those values first that most have; None where none has anything."""
    values: Counter[str] = Counter()
    for group in groups:
        value = group.value_of(read)
        if value is not None:
            values[value] += len(group.devices)
    shown = " or ".join(value for value, _ in values.most_common(_VALUES))
    return f"{shown} or another" if len(values) > _VALUES else shown or None
