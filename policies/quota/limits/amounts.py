"""Amounts of limits: reads them from a GPUQuota, and formats them for messages."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.names import format_amount, inflected
from policies.kubernetes.quantities import quantity_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.rules.charges import Unit


MOST: Mapping[Unit, int] = {"gpus": 10**6, "memory": 10**18, "devices": 10**7}
"""The largest allowed limit, which is more than any cluster has: a larger one has the wrong unit. The numbers are round,
because the API server stores the bounds of a schema as floating-point numbers."""

_EXAMPLES: Mapping[Unit, str] = {
    "gpus": 'a number of GPUs such as 8, or a part of one such as "1/2"',
    "memory": 'a quantity such as "80Gi"',
    "devices": "a whole number such as 14, without quotes",
}
_LEAST_MEMORY = 2**20
"""In bytes. A smaller limit lacks its unit."""

# deploy/base/api/gpuquotas.yaml has the same patterns.
_GPUS = re.compile(r"[0-9]{1,7}(?:\.[0-9]{1,9}|/[1-9][0-9]{0,3})?", re.ASCII)
_MEMORY = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,9})?(?:[kMGTPE]|[KMGTPE]i)?", re.ASCII)
_NEGATIVE = re.compile(r"-[0-9./]*[1-9]")

_NAMES: Mapping[Unit, str] = {"gpus": "GPU", "devices": "device"}
_SUFFIXES: Mapping[str, int] = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)} | {
    letter: 1000**power for power, letter in enumerate("kMGTPE", start=1)
}


class AmountError(ValueError):
    """The value is not an amount of its unit; message and remedy are without full stops."""

    def __init__(self, message: str, remedy: str) -> None:
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}; {remedy}")


def read_hard(unit: Unit, value: Any) -> Fraction:
    """The amount that a limit allows: GPUs or parts of one, whole bytes, devices.

    A JSON number such as 8.0 is a whole number, as for the API server.

    Raises:
        AmountError: it is invalid, negative, or more than any cluster has.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if _NEGATIVE.match(value) if isinstance(value, str) else isinstance(value, int | float) and value < 0:
        raise AmountError(f"is {quoted_value(value)}", "write 0 or more")
    amount = _READERS[unit](value)
    if amount is None:
        raise AmountError(f"is {quoted_value(value)}", f"write {_EXAMPLES[unit]}")
    if amount > MOST[unit]:
        raise AmountError(f"is {quoted_value(value)}", f"write at most {yaml_amount(unit, Fraction(MOST[unit]))}")
    return amount


def _gpus(value: Any) -> Fraction | None:
    if isinstance(value, float):
        remedy = 'write a part of a GPU as text, such as "1/2" or "0.5"'
        raise AmountError(f"is {quoted_value(value)} without quotes", remedy)
    if isinstance(value, str):
        return Fraction(value) if _GPUS.fullmatch(value) else None
    return _whole(value)


def _memory(value: Any) -> Fraction | None:
    amount = _quantity(value) if isinstance(value, str) else _whole(value)
    if amount is not None and 0 < amount < _LEAST_MEMORY:
        raise AmountError(f"is {quoted_value(value)}, less memory than any GPU has", 'write a unit, such as "80Gi"')
    return amount


def _quantity(text: str) -> Fraction | None:
    """The bytes of a quantity, rounded down; None if it is invalid."""
    amount = quantity_or_none(text) if _MEMORY.fullmatch(text) else None
    return None if amount is None else Fraction(floor(amount))


def _whole(value: Any) -> Fraction | None:
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else None


_READERS: Mapping[Unit, Callable[[Any], Fraction | None]] = {"gpus": _gpus, "memory": _memory, "devices": _whole}


def quoted_value(value: Any) -> str:
    """A value of a document for a message; long values are cut, and lists and mappings only named."""
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 128 bits"
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def yaml_amount(unit: Unit, amount: Fraction) -> str:
    """An exact amount as a GPUQuota can have it: `8`, `1/2`, `80Gi`.

    Memory has the largest suffix that leaves a whole number, binary or decimal, whichever is shorter.
    """
    if unit != "memory":
        return str(amount)
    spellings = [f"{amount / size}{suffix}" for suffix, size in _SUFFIXES.items() if amount and amount % size == 0]
    return min([*spellings, str(amount)], key=len)


def sufficient_limit(unit: Unit, amount: Fraction, limit: Fraction) -> str:
    """A limit that allows an amount, rounded up in the unit of today's limit: `10`, `877Gi`."""
    suffix = AmountScale.of(unit, amount, limit).suffix
    return f"{ceil(amount / _SUFFIXES.get(suffix, 1))}{suffix}"


class AmountScale(NamedTuple):
    """The unit of all amounts in one line: `GPUs`, `devices`, `GiB`."""

    unit: Unit
    suffix: str
    """Of memory: `Gi`, `G`; empty for bytes and for other units."""

    @classmethod
    def of(cls, unit: Unit, amount: Fraction, limit: Fraction | None = None) -> AmountScale:
        """The scale for an amount and the limit beside it.

        Memory gets the largest suffix in which both are 1 or more, decimal if the limit is written so: `GiB` for 80Gi of 1Ti.
        """
        if unit != "memory":
            return cls(unit, "")
        is_decimal = yaml_amount(unit, amount if limit is None else limit)[-1] in "kMGTPE"
        least = min(amount or limit or amount, limit or amount)
        fitting = [each for each, size in _SUFFIXES.items() if each.endswith("i") != is_decimal and size <= least]
        return cls(unit, max(fitting, key=_SUFFIXES.__getitem__, default=""))

    def number(self, amount: Fraction | None, beside: Fraction | None = None) -> str:
        """An amount without its unit, as `format_amount` writes it; `beside` is what readers compare it with."""
        if amount is None:
            return "?"
        size = _SUFFIXES.get(self.suffix, 1)
        return format_amount(amount / size, None if beside is None else beside / size)

    def is_exact(self, amount: Fraction) -> bool:
        """True if `number` does not round the amount."""
        return (10 * amount / _SUFFIXES.get(self.suffix, 1)).denominator == 1

    def text(self, amount: Fraction | None, beside: Fraction | None = None) -> str:
        """An amount with its unit: `0.5 GPU`, `6.9 TiB`, `14 devices`."""
        number = self.number(amount, beside)
        if self.unit == "memory":
            return f"{number} {self.suffix}B" if self.suffix else f"{number} {inflected('byte', number)}"
        return f"{number} {inflected(_NAMES[self.unit], number)}"

    def short(self, amount: Fraction | None, beside: Fraction | None = None) -> str:
        """An amount of which the reader knows what it is: `2`, `242.1 GiB`."""
        return self.text(amount, beside) if self.unit == "memory" else self.number(amount, beside)

    def of_limit(self, amount: Fraction | None, limit: Fraction) -> str:
        """An amount and its limit: `14.7 of 6 GPUs`, `6.9 of 6 TiB`."""
        return f"{self.number(amount, limit)} of {self.text(limit)}"

    @property
    def of_memory(self) -> str:
        """The words ` of memory`, to follow an amount of memory; empty for other units."""
        return " of memory" if self.unit == "memory" else ""


def amount_text(unit: Unit, amount: Fraction) -> str:
    """An amount by itself: `2 GPUs`, `0.5 GPU`, `79.6 GiB`, `3 devices`."""
    return AmountScale.of(unit, amount).text(amount)


def amount_of_limit(unit: Unit, amount: Fraction | None, limit: Fraction) -> str:
    """An amount and its limit in one unit: `14.7 of 6 GPUs`, `6.9 of 6 TiB`, `? of 8 GPUs`."""
    return AmountScale.of(unit, amount or limit, limit).of_limit(amount, limit)
