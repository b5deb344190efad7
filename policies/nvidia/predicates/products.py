"""The predicate on product names by globs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.nvidia.predicates.predicate import ATTRIBUTES, attribute_of, quote
from policies.nvidia.product_globs import any_matches, folded, lower_ascii, regular_expression

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["ProductLike"]

_MIG = "-mig-"
_NAME = f'{ATTRIBUTES}.productName.lowerAscii().replace(" ", "-")'
_WITH_PROFILE = f'({_NAME} + "{_MIG}" + {ATTRIBUTES}.profile.lowerAscii().replace("+", "."))'

_Matched = Literal["name", "name with profile", "either"]
_TEXTS: dict[_Matched, tuple[str, ...]] = {
    "name": (_NAME,),
    "name with profile": (_WITH_PROFILE,),
    "either": (_NAME, _WITH_PROFILE),
}


@dataclass(frozen=True, slots=True)
class ProductLike:
    """The product's name matches some globs and none of some others.

    Globs are matched in lower case, dashes for blanks, with or without `NVIDIA-`; see `policies.nvidia.product_globs`.
    """

    includes: tuple[str, ...]
    """None for every product."""
    excludes: tuple[str, ...] = ()
    of: _Matched = "name"
    """What is matched: the name, or, of MIG devices, the name with `-MIG-1g.5gb` as labels have it, or one of both.

    Excluding globs match one of both wherever there is a profile: who excludes a GPU wants no part of it.
    """

    def cel(self) -> str:
        """Guarded regular expressions."""
        guards = [f"has({ATTRIBUTES}.{name})" for name in self._attributes]
        includes = [_cel_of(self.includes, _TEXTS[self.of])] if self.includes else []
        excludes = [f"!{_cel_of(self.excludes, _TEXTS[self._excluded])}"] if self.excludes else []
        return " && ".join([*guards, *includes, *excludes])

    def matches(self, device: Device) -> bool:
        """Whether the name is wanted."""
        values = [attribute_of(device, attribute) for attribute in self._attributes]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values):
            return False
        wanted = not self.includes or _match(self.includes, _names(self.of, *texts))
        return wanted and not _match(self.excludes, _names(self._excluded, *texts))

    def words(self) -> str:
        """`product H100* or A100-80GB*, not *MIG*`."""
        excludes = [f"not {glob}" for glob in self.excludes]
        return f"product {', '.join([*filter(None, [' or '.join(self.includes)]), *excludes]) or '*'}"

    @property
    def _attributes(self) -> tuple[str, ...]:
        return ("productName",) if self.of == "name" else ("productName", "profile")

    @property
    def _excluded(self) -> _Matched:
        return "name" if self.of == "name" else "either"


def _cel_of(globs: tuple[str, ...], texts: tuple[str, ...]) -> str:
    pattern = quote(regular_expression([glob.lower() for glob in globs]))
    tests = [f"{text}.matches({pattern})" for text in texts]
    return tests[0] if len(tests) == 1 else f"({' || '.join(tests)})"


def _match(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    lower = [glob.lower() for glob in globs]
    return any(any_matches(lower, name) for name in names)


def _names(of: _Matched, name: str, profile: str = "") -> tuple[str, ...]:
    """The texts that are matched, folded."""
    plain = folded(name)
    full = f"{plain}{_MIG}{lower_ascii(profile).replace('+', '.')}"
    return {"name": (plain,), "name with profile": (full,), "either": (plain, full)}[of]
