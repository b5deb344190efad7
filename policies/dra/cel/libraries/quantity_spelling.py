"""The canonical text of a quantity: `1536Mi` for `1.5Gi`, `1100m` for `1.1`, `1e3` for `1000e0`.

No expression can show a quantity; messages do.
Source: k8s.io/apimachinery/pkg/api/resource, quantity.go (CanonicalizeBytes) and suffix.go.
"""

from __future__ import annotations

from policies.dra.cel.libraries.quantity_texts import Notation

__all__ = ["spelled"]

_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP = 1024
_GROUP = 3


def spelled(amount: int, exponent: int, notation: Notation) -> str:
    """`amount` times ten to the power of `exponent`; powers beyond the suffixes are left out, as Kubernetes does."""
    if not amount:
        return "0"
    if notation is Notation.BINARY:
        whole, rest = divmod(amount * 10 ** max(exponent, 0), 10 ** max(-exponent, 0))
        if not rest and abs(whole) >= _STEP:
            return _in_powers_of_1024(whole)
    while not amount % 10:
        amount //= 10
        exponent += 1
    amount *= 10 ** (exponent % _GROUP)
    exponent -= exponent % _GROUP
    if notation is Notation.EXPONENT:
        return f"{amount}e{exponent}" if exponent else str(amount)
    return f"{amount}{_DECIMAL.get(exponent, '')}"


def _in_powers_of_1024(whole: int) -> str:
    power = 0
    while not whole % _STEP:
        whole //= _STEP
        power += 1
    return f"{whole}{_BINARY[power] if power < len(_BINARY) else ''}"
