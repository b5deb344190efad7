"""How labels of MIG devices are read: those of the single strategy, and those of one profile."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.nvidia.label_readings import (
    Label,
    Memory,
    NoEquivalent,
    ProductLabel,
    SharingStrategy,
    Subject,
    UntranslatableError,
    profile_is,
)
from policies.nvidia.predicates import CapacityIs, Predicate, Present, ProfileSlices

if TYPE_CHECKING:
    from policies.nvidia.mig import MIGProfile

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class MIGCapacity(Label):
    """A number of MIG devices under the single strategy: `gpu.multiprocessors`, `gpu.engines.copy`."""

    capacity: str

    def equals(self, value: str, subject: Subject) -> Predicate:
        self.check(subject)
        if not _NUMBER.fullmatch(value):
            raise UntranslatableError(f'is a number on every node; "{value}" is none')
        return CapacityIs(self.capacity, (("==", value),))

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        self.check(subject)
        return CapacityIs(self.capacity, ((comparison, str(number)),))

    def present(self, subject: Subject) -> Predicate:
        self.check(subject)
        return CapacityIs(self.capacity, ())

    @staticmethod
    def check(subject: Subject) -> None:
        if subject.kind != "mig-single":
            raise UntranslatableError("exists only on nodes that hand out MIG devices as nvidia.com/gpu")


class Slices(Label):
    """`gpu.slices.gi` and `.ci`: the first number of a MIG profile; the two are always equal."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        MIGCapacity.check(subject)
        if not _NUMBER.fullmatch(value):
            raise UntranslatableError(f'is a number on every node; "{value}" is none')
        return ProfileSlices(int(value))

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        raise UntranslatableError("is compared by Gt or Lt, and devices have it only as the text of their profile")

    def present(self, subject: Subject) -> Predicate:
        MIGCapacity.check(subject)
        return Present("profile")


@dataclass(frozen=True, slots=True)
class OfProfile(Label):
    """A label of one MIG profile (`mig-1g.5gb.count`): exact only if the pod requests that profile."""

    profile: MIGProfile
    rest: str

    def equals(self, value: str, subject: Subject) -> Predicate:
        return self._inner(subject).equals(value, Subject("mig-single", self.profile))

    def excludes(self, value: str, subject: Subject) -> Predicate:
        return self._inner(subject).excludes(value, Subject("mig-single", self.profile))

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        return self._inner(subject).compares(comparison, number, Subject("mig-single", self.profile))

    def present(self, subject: Subject) -> Predicate:
        self._inner(subject)
        return profile_is(self.profile)

    def _inner(self, subject: Subject) -> Label:
        if subject.kind != "mig" or subject.profile != self.profile:
            raise UntranslatableError(
                f"says that the node has {self.profile} devices, which this pod does not request; a device knows nothing "
                "of its neighbours"
            )
        return _OF_PROFILE.get(self.rest, _COUNTED)


MIG_CAPACITIES: dict[str, Label] = {
    "multiprocessors": MIGCapacity("multiprocessors"),
    "engines.copy": MIGCapacity("copyEngines"),
    "engines.decoder": MIGCapacity("decoders"),
    "engines.encoder": MIGCapacity("encoders"),
    "engines.jpeg": MIGCapacity("jpegEngines"),
    "engines.ofa": MIGCapacity("ofaEngines"),
}
_COUNTED = NoEquivalent("counts devices of the node; no device knows how many there are")
_OF_PROFILE: dict[str, Label] = {
    "product": ProductLabel(),
    "sharing-strategy": SharingStrategy(),
    "slices.gi": Slices(),
    "slices.ci": Slices(),
    "memory": Memory(),
    **MIG_CAPACITIES,
}
