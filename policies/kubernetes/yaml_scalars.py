"""What a scalar of YAML means to Kubernetes.

Kubernetes reads YAML with sigs.k8s.io/yaml: go-yaml v2 decides what a scalar is, and the result is written as JSON.
Both steps leave traces that a reader of manifests has to reproduce, or it judges another object than the API server:
``y`` and ``on`` are booleans, ``010`` is eight, ``1:30`` and ``2024-01-01`` are strings, ``1.0`` arrives as the
integer 1, and the key ``1e6`` is spelled ``1e+06``.

Sources: ``resolve`` in go.yaml.in/yaml/v2 (resolve.go), ``convertToJSONableObject`` in sigs.k8s.io/yaml (yaml.go).
"""

from __future__ import annotations

import json
import math
import re
import struct
from decimal import Decimal

__all__ = ["Scalar", "key", "kind_of_tag", "plain", "quote_text", "tagged_scalar", "value"]

Scalar = str | int | float | bool | None
"""A scalar as go-yaml resolves it; floats may still be infinite or not a number."""

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
}

_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = {"hex": 16, "binary": 2, "octal": 8, "decimal": 10}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Go allows an underscore between two digits here, and nowhere else.
_FRACTION = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")

_INT64_MIN, _INT64_END, _UINT64_END = -(2**63), 2**63, 2**64
_UINT64_DIGITS = 20
_LONGEST_SHOWN = 63

_TAG_PREFIX = "tag:yaml.org,2002:"
_TAGS = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
    "seq": "a list",
    "map": "a mapping",
}


def plain(text: str) -> Scalar:
    """The meaning of a scalar without quotes and without a tag.

    A number that fits neither int64 nor uint64 is a float, and one that fits no float is a string, as in Go.
    """
    first = text[:1]
    if first not in "yYnNtTfFoO~.+-0123456789":
        return text
    if text in _WORDS:
        return _WORDS[text]
    if first == ".":
        return _float(text, text) if _FRACTION.fullmatch(text) else text
    if first not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    integer = _integer(digits)
    if integer is not None:
        return integer
    return _float(digits, text) if _FLOAT.fullmatch(digits) else text


def tagged_scalar(tag: str, text: str) -> Scalar:
    """The meaning of a scalar that carries a tag.

    Raises:
        ValueError: if the tag is not a type of JSON, or the text cannot be read as its type.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if tag == "!" or name == "str":
        return text
    expected = kind_of_tag(tag)
    scalar = plain(text)
    if name == "float" and isinstance(scalar, int) and not isinstance(scalar, bool):
        return float(scalar)
    if name != _tag_name(scalar):
        raise ValueError(f"{quote_text(text)} is not {expected}, which its tag !!{name} requires")
    return scalar


def kind_of_tag(tag: str) -> str:
    """What a tag promises, in words.

    Raises:
        ValueError: if the tag is not a type of JSON.
    """
    name = tag.removeprefix(_TAG_PREFIX)
    if name == tag or name not in _TAGS:
        short = tag if name == tag else f"!!{name}"
        raise ValueError(
            f"the tag {quote_text(short)} is not supported: objects of Kubernetes hold only strings, numbers, booleans, null, lists and mappings"
        )
    return _TAGS[name]


def value(scalar: Scalar) -> Scalar:
    """A scalar as it arrives at the API server, after the way through JSON.

    Go writes the float 2.0 to JSON as ``2``, and 3e17 as ``300000000000000000``; Kubernetes reads both as integers, and
    so do we.

    Raises:
        ValueError: if JSON has no such number.
    """
    if not isinstance(scalar, float):
        return scalar
    if not math.isfinite(scalar):
        raise ValueError("infinity and not-a-number do not exist in JSON; quote the value if a string is meant")
    if not scalar.is_integer():
        return scalar
    # Both languages choose the same shortest digits; zeros fill the rest, which is not always the exact value.
    written = int(Decimal(repr(scalar)))
    return written if _INT64_MIN <= written < _INT64_END else scalar


def key(scalar: Scalar) -> str:
    """The spelling of a scalar that is used as a key.

    Raises:
        ValueError: if sigs.k8s.io/yaml cannot turn it into the key of a JSON object.
    """
    if isinstance(scalar, str):
        return scalar
    if scalar is None:
        raise ValueError("null cannot be a key; write a name, or quote it")
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, float):
        return _float_key(scalar)
    if scalar >= _INT64_END:
        raise ValueError(f"the number {scalar} is too large for a key; quote it")
    return str(scalar)


def quote_text(text: str) -> str:
    """A text in double quotes, on one line and not too long, for use in a message."""
    return json.dumps(text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…", ensure_ascii=False)


def _integer(digits: str) -> int | None:
    match = _INTEGER.fullmatch(digits)
    if match is None or match.lastgroup is None:
        return None
    magnitude = match[match.lastgroup]
    # Python refuses to convert very long decimals; such a number is out of range whatever its digits are.
    if match.lastgroup == "decimal" and len(magnitude) > _UINT64_DIGITS:
        return None
    integer = int(match["sign"] + magnitude, _BASES[match.lastgroup])
    end = _INT64_END if match["sign"] else _UINT64_END
    return integer if _INT64_MIN <= integer < end else None


def _float(digits: str, text: str) -> float | str:
    number = float(digits)
    return text if math.isinf(number) else number


def _tag_name(scalar: Scalar) -> str:
    return {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}[type(scalar)]


def _float_key(number: float) -> str:
    """The number as Go's ``strconv.FormatFloat(number, 'g', -1, 32)`` writes it.

    These are the fewest digits that still name the same 32-bit float, in scientific form below 1e-4 and from 1e6 on.
    """
    if math.isnan(number):
        return ".nan"
    single = _single_precision(number)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    precision = next(digits for digits in range(17) if _single_precision(float(f"{single:.{digits}e}")) == single)
    scientific = f"{single:.{precision}e}"
    exponent = int(scientific.partition("e")[2])
    if -4 <= exponent < 6:
        return f"{single:.{max(precision - exponent, 0)}f}"
    return scientific


def _single_precision(number: float) -> float:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(single)
