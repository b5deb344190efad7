"""Constraints that no choice of devices satisfies, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.constraints import attribute_of
from policies.dra.words import compressed, many, short
from policies.explanation.report import Reason, ReasonKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.dra.allocation.requests import Claim, ConstraintSpec
    from policies.dra.allocation.slices import Device
    from policies.explanation.rejected_devices import Tally

__all__ = ["constraint_reason", "constraint_words"]

_MOST_VALUES = 4
_NONE = ""


def constraint_words(constraint: ConstraintSpec) -> str:
    """The constraint in short: `the same resource.kubernetes.io/pcieRoot`."""
    return f"the same {constraint.match}" if constraint.match is not None else f"different {constraint.distinct}"


def constraint_reason(claim: Claim, position: int, tallies: Sequence[Tally]) -> Reason:
    """Say what the devices that could serve have in place of one common value, or of different ones.

    Args:
        claim: whose constraint it is.
        position: of the constraint in the claim.
        tallies: what the requests found that the constraint is about.
    """
    constraint = claim.constraints[position]
    name = constraint.match or constraint.distinct or ""
    devices = {device.id: device for found in tallies for device in found.usable}
    by_value = _by_value(list(devices.values()), name)
    asked = sum({found.alternative.request_name: found.asked for found in tallies}.values())
    start = f"{many(asked, 'device')} with {constraint_words(constraint)} asked"
    told = sorted(by_value.items(), key=lambda item: -len(item[1]))
    known = [names for value, names in told if value != _NONE]
    if constraint.match is not None:
        most = max(map(len, known), default=0)
        sentence = f"{start}; of the {len(devices)} that can serve, at most {most} have one in common"
    else:
        sentence = f"{start}; the {len(devices)} that can serve have {many(len(known), 'value')} of it"
    details = [
        f"{compressed(names)} {'have' if len(names) > 1 else 'has'} {f'{name} {short(value)}' if value else f'no {name}'}"
        for value, names in told[:_MOST_VALUES]
    ]
    rest = len(told) - _MOST_VALUES
    if rest > 0:
        details.append(f"the others have {many(rest, 'more value')}")
    return Reason(ReasonKind.CONSTRAINT, sentence, tuple(details), {"claim": claim.name, "constraint": name})


def _by_value(devices: Sequence[Device], name: str) -> dict[str, list[str]]:
    by_value: dict[str, list[str]] = {}
    for device in devices:
        attribute = attribute_of(device, name)
        value = _NONE if attribute is None else ", ".join(_text(each) for each in attribute.values())
        by_value.setdefault(value, []).append(device.name)
    return by_value


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
