"""Readings of node labels: what each kind of label says of a device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from policies.nvidia.mig import MIGProfile
from policies.nvidia.number_predicates import CapacityIs, MemoryWithin, VersionIs, VersionPart
from policies.nvidia.predicates import FALSE, TRUE, Predicate, Present, ProfileSlices, TextIn, all_of
from policies.nvidia.products import Product

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_PADDED_NUMBER = re.compile(r"[0-9]{1,9}")


class UntranslatableError(ValueError):
    """A condition on a label that no condition on a device equals; the text gives the reason."""


class SharedGPUError(UntranslatableError):
    """The condition selects GPUs that are shared between pods."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The kind of device that a label is translated for."""

    kind: Literal["gpu", "mig", "mig-single"]
    """A whole GPU, a MIG device requested by profile, or one requested as `nvidia.com/gpu`."""
    profile: MIGProfile | None = None


class Label:
    """The reading of one label; each method raises UntranslatableError where no predicate is exact."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        """The device could be on a node where the label has this value."""
        raise NotImplementedError

    def excludes(self, value: str, subject: Subject) -> Predicate:
        """The predicate that `NotIn` negates for this value; FALSE for one that no device of a claim has."""
        return self.equals(value, subject)

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        """The device could be on a node where the label is greater or less than a number."""
        raise UntranslatableError("is not a number, so Gt and Lt never match it")

    def present(self, subject: Subject) -> Predicate:
        """The device could be on a node that has the label."""
        raise NotImplementedError


def profile_is(profile: MIGProfile) -> Predicate:
    """The device is a MIG device of this profile."""
    return TextIn("profile", (str(profile),), name="MIG profile")


class ProductLabel(Label):
    """`gpu.product`: compared as the label spells it, because its dashes may stand for blanks."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        product = Product.parse(value)
        if product.invalid:
            raise UntranslatableError("names a node whose MIG devices are misconfigured; no wanted device is like that")
        if product.shared:
            raise SharedGPUError("names GPUs that are shared between pods (suffix -SHARED); a claim gets a whole GPU")
        if product.profile is not None and subject.kind != "mig-single":
            raise UntranslatableError(
                f"names nodes that hand out MIG {product.profile} devices as nvidia.com/gpu; "
                f"the pod requests {'whole GPUs' if subject.kind == 'gpu' else 'MIG devices by their profile'}"
            )
        if product.profile is None and subject.kind == "mig-single":
            raise UntranslatableError("names nodes with whole GPUs; the pod requests MIG devices")
        name = TextIn("productName", (product.name,), "dashed", "product")
        return all_of([name, profile_is(product.profile)]) if product.profile else name

    def excludes(self, value: str, subject: Subject) -> Predicate:
        product = Product.parse(value)
        if product.invalid or product.shared or (product.profile is not None) != (subject.kind == "mig-single"):
            return FALSE
        return self.equals(value, subject)

    def present(self, subject: Subject) -> Predicate:
        return Present("productName")


class Family(Label):
    """`gpu.family`: the architecture in lower case."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        if value in ("undefined", "unknown"):
            raise UntranslatableError('is "undefined" on GPUs that GFD does not know; no architecture equals that')
        return TextIn("architecture", (value,), "lower dashed", "family")

    def present(self, subject: Subject) -> Predicate:
        return Present("architecture")


@dataclass(frozen=True, slots=True)
class VersionNumber(Label):
    """One number of a version. Labels have `05` if the attribute is 5, and nothing if it is 0."""

    attribute: str
    part: Literal["major", "minor", "patch"]

    def equals(self, value: str, subject: Subject) -> Predicate:
        if value == "" and self.part == "patch":
            return VersionPart(self.attribute, self.part, "==", 0)
        if not _PADDED_NUMBER.fullmatch(value):
            raise UntranslatableError(f'is a number on every node; "{value}" is none')
        return VersionPart(self.attribute, self.part, "==", int(value))

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        compared = VersionPart(self.attribute, self.part, comparison, number)
        if self.part == "patch" and comparison == "<":
            # The label is empty if the attribute is 0, and Lt does not match an empty value.
            return all_of([VersionPart(self.attribute, self.part, ">", 0), compared])
        return compared

    def present(self, subject: Subject) -> Predicate:
        return Present(self.attribute)


@dataclass(frozen=True, slots=True)
class FullVersion(Label):
    """A version of two or three numbers."""

    attribute: str

    def equals(self, value: str, subject: Subject) -> Predicate:
        numbers = value.split(".")
        if len(numbers) not in (2, 3) or not all(_PADDED_NUMBER.fullmatch(number) for number in numbers):
            raise UntranslatableError(f'is a version on every node; "{value}" is none')
        major, minor, patch = (*map(int, numbers), 0)[:3]
        return VersionIs(self.attribute, (major, minor, patch))

    def present(self, subject: Subject) -> Predicate:
        return Present(self.attribute)


class Memory(Label):
    """`gpu.memory`: whole mebibytes, rounded down, of the GPU or of its MIG devices (single strategy)."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        self._check(subject)
        if not _NUMBER.fullmatch(value):
            raise UntranslatableError(f'is a number of mebibytes on every node; "{value}" is none')
        return MemoryWithin(int(value), int(value), is_whole=subject.kind == "gpu")

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        self._check(subject)
        is_whole = subject.kind == "gpu"
        return (
            MemoryWithin(number + 1, None, is_whole) if comparison == ">" else MemoryWithin(None, number - 1, is_whole)
        )

    def present(self, subject: Subject) -> Predicate:
        self._check(subject)
        return CapacityIs("memory", ())

    @staticmethod
    def _check(subject: Subject) -> None:
        if subject.kind == "mig":
            raise UntranslatableError("tells the memory of the whole GPU; a MIG device knows only its own")


class SharingStrategy(Label):
    """`gpu.sharing-strategy`: what a claim holds is not shared."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        if value == "none":
            return TRUE
        raise SharedGPUError(f'"{value}" selects GPUs that are shared between pods; a claim gets a whole GPU')

    def excludes(self, value: str, subject: Subject) -> Predicate:
        if value == "none":
            raise SharedGPUError('without "none" selects GPUs that are shared between pods; a claim gets a whole GPU')
        return FALSE

    def present(self, subject: Subject) -> Predicate:
        return TRUE


@dataclass(frozen=True, slots=True)
class Implied(Label):
    """A label that every node with such a device has, with one value."""

    value: str
    kinds: tuple[str, ...]

    def equals(self, value: str, subject: Subject) -> Predicate:
        if value == self.value and subject.kind in self.kinds:
            return TRUE
        raise UntranslatableError(f'"{value}" contradicts the request of the pod; no node with such a device has it')

    def excludes(self, value: str, subject: Subject) -> Predicate:
        return self.equals(value, subject) if value == self.value else FALSE

    def present(self, subject: Subject) -> Predicate:
        return self.equals(self.value, subject)


class Strategy(Label):
    """`mig.strategy`: how resources are named, which the request of the pod implies."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        if {"mixed": "mig", "single": "mig-single"}.get(value) == subject.kind:
            return TRUE
        raise UntranslatableError("only tells how the device plugin names resources; no device has such an attribute")

    def present(self, subject: Subject) -> Predicate:
        return self.equals("", subject)


class PartitionSize(Label):
    """GKE's label for the profile of the MIG devices that a node hands out as `nvidia.com/gpu`."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        profile = MIGProfile.parse(value)
        if profile is None or subject.kind == "gpu" or subject.profile not in (None, profile):
            raise UntranslatableError(f'"{value}" is for MIG devices of this profile, and the pod requests others')
        return profile_is(profile)

    def present(self, subject: Subject) -> Predicate:
        raise UntranslatableError("is read with a value only")


class SharedClients(Label):
    """GKE's label for the number of pods that share a GPU: the number of its shares."""

    def equals(self, value: str, subject: Subject) -> Predicate:
        if not _NUMBER.fullmatch(value) or subject.kind != "gpu":
            raise UntranslatableError("is the number of pods that share a whole GPU")
        return CapacityIs("shares", (("==", value),))

    def present(self, subject: Subject) -> Predicate:
        raise UntranslatableError("is read with a value only")


@dataclass(frozen=True, slots=True)
class NoEquivalent(Label):
    """A label that no attribute of a device equals."""

    reason: str

    def equals(self, value: str, subject: Subject) -> Predicate:
        raise UntranslatableError(self.reason)

    def compares(self, comparison: Literal[">", "<"], number: int, subject: Subject) -> Predicate:
        raise UntranslatableError(self.reason)

    def present(self, subject: Subject) -> Predicate:
        raise UntranslatableError(self.reason)


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
