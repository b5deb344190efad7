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


@dataclass(frozen=True, slots=True)
class ProductLike:
    """The product's name matches some globs and none of some others.

    Globs are matched in lower case, dashes for blanks, with or without `NVIDIA-`; see `policies.nvidia.product_globs`.
    """

    includes: tuple[str, ...]
    """None for every product."""
    excludes: tuple[str, ...] = ()
    of: Literal["name", "name with profile", "either"] = "name"
    """What is matched: the name, or, of MIG devices, the name with `-MIG-1g.5gb` as labels have it, or one of both."""

    def cel(self) -> str:
        """Guarded regular expressions."""
        guards = [f"has({ATTRIBUTES}.{name})" for name in self._attributes]
        includes = [self._cel_of(self.includes)] if self.includes else []
        excludes = [f"!{self._cel_of(self.excludes)}"] if self.excludes else []
        return " && ".join([*guards, *includes, *excludes])

    def matches(self, device: Device) -> bool:
        """Whether the name is wanted."""
        values = [attribute_of(device, attribute) for attribute in self._attributes]
        texts = [value for value in values if isinstance(value, str)]
        if len(texts) < len(values):
            return False
        names = self._names(*texts)
        includes = [glob.lower() for glob in self.includes]
        excludes = [glob.lower() for glob in self.excludes]
        wanted = not includes or any(any_matches(includes, name) for name in names)
        return wanted and not any(any_matches(excludes, name) for name in names)

    def words(self) -> str:
        """`product H100* or A100-80GB*, not *MIG*`."""
        excludes = [f"not {glob}" for glob in self.excludes]
        return f"product {', '.join([*filter(None, [' or '.join(self.includes)]), *excludes]) or '*'}"

    @property
    def _attributes(self) -> tuple[str, ...]:
        return ("productName",) if self.of == "name" else ("productName", "profile")

    def _cel_of(self, globs: tuple[str, ...]) -> str:
        pattern = quote(regular_expression([glob.lower() for glob in globs]))
        texts = {"name": [_NAME], "name with profile": [_WITH_PROFILE], "either": [_NAME, _WITH_PROFILE]}[self.of]
        tests = [f"{text}.matches({pattern})" for text in texts]
        return tests[0] if len(tests) == 1 else f"({' || '.join(tests)})"

    def _names(self, name: str, profile: str = "") -> tuple[str, ...]:
        """The texts that are matched, folded."""
        plain = folded(name)
        full = f"{plain}{_MIG}{lower_ascii(profile).replace('+', '.')}"
        return {"name": (plain,), "name with profile": (full,), "either": (plain, full)}[self.of]
