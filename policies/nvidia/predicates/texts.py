"""Predicates on attributes that are text, and on whether there is an attribute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.nvidia.predicates.predicate import ATTRIBUTES, attribute_of, quote

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["Present", "ProfileSlices", "Spelling", "TextIn"]

Spelling = Literal["as is", "dashed", "lower dashed"]
"""How a label spells an attribute's text: GPU Feature Discovery writes dashes for blanks, and families in lower case."""


@dataclass(frozen=True, slots=True)
class Present:
    """The device has the attribute."""

    attribute: str

    def cel(self) -> str:
        """`has(...)`."""
        return f"has({ATTRIBUTES}.{self.attribute})"

    def matches(self, device: Device) -> bool:
        """Whether the attribute is there."""
        return attribute_of(device, self.attribute) is not None

    def words(self) -> str:
        """`any productName`."""
        return f"any {self.attribute}"


@dataclass(frozen=True, slots=True)
class TextIn:
    """An attribute's text, in the spelling of labels, is one of some values."""

    attribute: str
    values: tuple[str, ...]
    spelling: Spelling = "as is"
    name: str = ""
    """What people call it: `product`."""

    def cel(self) -> str:
        """A guarded comparison; `in` where there are several values."""
        text = f"{ATTRIBUTES}.{self.attribute}"
        guard = f"has({text})"
        if self.spelling == "lower dashed":
            text += ".lowerAscii()"
        if self.spelling != "as is":
            text += '.replace(" ", "-")'
        values = ", ".join(quote(value) for value in self.values)
        return f"{guard} && {text} == {values}" if len(self.values) == 1 else f"{guard} && {text} in [{values}]"

    def matches(self, device: Device) -> bool:
        """Whether the text is one of the values."""
        text = attribute_of(device, self.attribute)
        if not isinstance(text, str):
            return False
        if self.spelling == "lower dashed":
            text = "".join(character.lower() if character.isascii() else character for character in text)
        if self.spelling != "as is":
            text = text.replace(" ", "-")
        return text in self.values

    def words(self) -> str:
        """`product A or B`."""
        return f"{self.name or self.attribute} {' or '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class ProfileSlices:
    """The device is a MIG device of so many slices, whatever its memory."""

    slices: int

    def cel(self) -> str:
        """A guarded `startsWith`."""
        return f'has({ATTRIBUTES}.profile) && {ATTRIBUTES}.profile.startsWith("{self.slices}g.")'

    def matches(self, device: Device) -> bool:
        """Whether the profile begins so."""
        return str(attribute_of(device, "profile")).startswith(f"{self.slices}g.")

    def words(self) -> str:
        """`MIG profile 3g.*`."""
        return f"MIG profile {self.slices}g.*"
