"""Amounts of limits: reads them from a GPUQuota, and formats them for messages."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any

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
_SUFFIXES = {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)} | {
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
        raise AmountError(f"is {quoted_value(value)}", f"write at most {amount_with_unit(unit, Fraction(MOST[unit]))}")
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


def bare_amount(unit: Unit, amount: Fraction) -> str:
    """An amount without a noun: `2`, `1/2`, `80Gi`."""
    return amount_with_unit(unit, amount) if unit == "memory" else str(amount)


def amount_text(unit: Unit, amount: Fraction) -> str:
    """An amount with its noun: `2 GPUs`, `80Gi of memory`."""
    return f"{amount_with_unit(unit, amount)} of memory" if unit == "memory" else amount_with_unit(unit, amount)


def common_suffix(unit: Unit, requested: Fraction, hard: Fraction) -> str:
    """The suffix for all amounts of memory of a sentence on a request and a limit; empty for others.

    The largest one in which both are 1 or more, binary or decimal like the limit: `Gi` for 80Gi of 1Ti.
    """
    if unit != "memory":
        return ""
    is_decimal = amount_with_unit(unit, hard)[-1] in "kMGTPE"
    sizes = {suffix: size for suffix, size in _SUFFIXES.items() if suffix.endswith("i") != is_decimal}
    least = min(requested or hard, hard or requested)
    return max((suffix for suffix in sizes if sizes[suffix] <= least), key=sizes.__getitem__, default="")


def rounded_amount(unit: Unit, amount: Fraction, suffix: str, rounding: Callable[[Fraction], int] = floor) -> str:
    """An amount without a noun; memory in the unit of the suffix with at most one decimal: `247.9Gi`."""
    if unit != "memory":
        return bare_amount(unit, amount)
    tenths = rounding(10 * amount / _SUFFIXES.get(suffix, 1))
    return f"{tenths / 10:.1f}".removesuffix(".0") + suffix if tenths else "0"


def rounded_text(unit: Unit, amount: Fraction, suffix: str, rounding: Callable[[Fraction], int] = floor) -> str:
    """An amount as `rounded_amount` writes it, with its noun: `247.9Gi of memory`."""
    if unit != "memory":
        return amount_text(unit, amount)
    return f"{rounded_amount(unit, amount, suffix, rounding)} of memory"


def amount_with_unit(unit: Unit, amount: Fraction) -> str:
    """An exact amount with its unit: `2 GPUs`, `1/2 GPU`, `80Gi`, `3 devices`.

    Memory is spelled as Kubernetes spells quantities: with the largest suffix that leaves a whole number, binary or
    decimal, whichever is shorter.
    """
    if unit == "memory":
        spellings = [f"{amount / size}{suffix}" for suffix, size in _SUFFIXES.items() if amount and amount % size == 0]
        return min([*spellings, str(amount)], key=len)
    return f"{amount} {_NAMES[unit]}{'' if 0 < amount <= 1 else 's'}"
