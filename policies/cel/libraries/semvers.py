"""Semantic versions: `semver("1.2.3")`, devices' version attributes, and the functions on them.

Source: k8s.io/apiserver/pkg/cel/semver.go and library/semverlib.go, github.com/blang/semver/v4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import CelRuntimeError
from policies.cel.kinds import quoted_text
from policies.cel.types import BOOL, INT, STRING, Type
from policies.cel.values import UINT64_MAX, wrap_int64

SEMVER = Type("kubernetes.Semver", kind="object")
"""The type of versions; expressions cannot name it."""

_NUMBER = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*")
_ELEMENTS = 3

_Identifier = tuple[int, int, str]
"""A number as (0, number, ""), a word as (1, 0, word): numbers come before words."""


@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version; build metadata is only shown: no function returns it, and equality ignores it."""

    cel_type: ClassVar[Type] = SEMVER

    major: int
    minor: int
    patch: int
    prerelease: tuple[_Identifier, ...] = ()
    build: str = ""
    precedence: tuple[int, int, int, bool, tuple[_Identifier, ...]] = field(init=False)
    """By it versions are compared: without a prerelease comes after any prerelease."""

    def __post_init__(self) -> None:
        """Compute `precedence`."""
        precedence = (self.major, self.minor, self.patch, not self.prerelease, self.prerelease)
        object.__setattr__(self, "precedence", precedence)

    @staticmethod
    def read(text: str) -> Semver:
        """The version that a text denotes, strictly after semver.org.

        Raises:
            CelRuntimeError: the text is invalid.
        """
        if not text:
            raise CelRuntimeError("Version string empty")
        elements = text.split(".", _ELEMENTS - 1)
        if len(elements) != _ELEMENTS:
            raise CelRuntimeError("No Major.Minor.Patch elements found")
        major, minor = _number(elements[0], "major"), _number(elements[1], "minor")
        release, _, build = elements[2].partition("+")
        patch, dash, prerelease = release.partition("-")
        version = Semver(
            major, minor, _number(patch, "patch"), tuple(map(_identifier, prerelease.split("."))) if dash else (), build
        )
        for word in build.split(".") if "+" in elements[2] else ():
            if not word:
                raise CelRuntimeError("Build meta data is empty")
            if _IDENTIFIER.fullmatch(word) is None:
                raise CelRuntimeError(f"Invalid character(s) found in build meta data {quoted_text(word)}")
        return version

    @staticmethod
    def read_normalized(text: str) -> Semver:
        """The version of a text that may begin with `v`, have one or two numbers, or leading zeros.

        Raises:
            CelRuntimeError: the text is invalid even so.
        """
        elements = [_without_leading_zeros(part) for part in text.removeprefix("v").split(".", _ELEMENTS - 1)]
        if len(elements) < _ELEMENTS:
            if "+" in elements[-1] or "-" in elements[-1]:
                raise CelRuntimeError("short version cannot contain PreRelease/Build meta data")
            elements += ["0"] * (_ELEMENTS - len(elements))
        return Semver.read(".".join(elements))

    def __str__(self) -> str:
        """The version as it is written."""
        prerelease = ".".join(word or str(number) for _, number, word in self.prerelease)
        core = f"{self.major}.{self.minor}.{self.patch}"
        return core + f"-{prerelease}" * bool(prerelease) + f"+{self.build}" * bool(self.build)

    def __eq__(self, other: object) -> bool:
        """True if both are versions of the same precedence."""
        return self.precedence == other.precedence if isinstance(other, Semver) else NotImplemented

    def __hash__(self) -> int:
        """Equal versions have equal hashes."""
        return hash(self.precedence)


def _number(text: str, element: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise CelRuntimeError(f"Invalid character(s) found in {element} number {quoted_text(text)}")
    if len(text) > 1 and text.startswith("0"):
        raise CelRuntimeError(f"{element.capitalize()} number must not contain leading zeroes {quoted_text(text)}")
    return _uint(text)


def _uint(digits: str) -> int:
    """The number that Go's strconv.ParseUint reads."""
    if not digits:
        raise CelRuntimeError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > len(str(UINT64_MAX)) or int(digits) > UINT64_MAX:
        raise CelRuntimeError(f"strconv.ParseUint: parsing {quoted_text(digits)}: value out of range")
    return int(digits)


def _identifier(text: str) -> _Identifier:
    if not text:
        raise CelRuntimeError("Prerelease is empty")
    if _NUMBER.fullmatch(text):
        if len(text) > 1 and text.startswith("0"):
            raise CelRuntimeError(f"Numeric PreRelease version must not contain leading zeroes {quoted_text(text)}")
        return (0, _uint(text), "")
    if _IDENTIFIER.fullmatch(text) is None:
        raise CelRuntimeError(f"Invalid character(s) found in prerelease {quoted_text(text)}")
    return (1, 0, text)


def _without_leading_zeros(element: str) -> str:
    if len(element.encode()) <= 1:
        return element
    stripped = element.lstrip("0")
    return stripped if "0" <= stripped[:1] <= "9" else "0" + stripped


def _semver(text: str, normalize: bool) -> Semver:
    return Semver.read_normalized(text) if normalize else Semver.read(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CelRuntimeError:
        return False
    return True


def _compare_to(version: Semver, other: Semver) -> int:
    return (version.precedence > other.precedence) - (version.precedence < other.precedence)


LIBRARY: tuple[Overload, ...] = (
    function("semver", "string_to_semver", (STRING,), SEMVER, Semver.read),
    function("semver", "string_bool_to_semver", (STRING, BOOL), SEMVER, _semver),
    function("isSemver", "is_semver_string", (STRING,), BOOL, _is_semver),
    function("isSemver", "is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
    member(
        "isGreaterThan",
        "semver_is_greater_than",
        (SEMVER, SEMVER),
        BOOL,
        lambda version, other: version.precedence > other.precedence,
    ),
    member(
        "isLessThan",
        "semver_is_less_than",
        (SEMVER, SEMVER),
        BOOL,
        lambda version, other: version.precedence < other.precedence,
    ),
    member("compareTo", "semver_compare_to", (SEMVER, SEMVER), INT, _compare_to),
    member("major", "semver_major", (SEMVER,), INT, lambda version: wrap_int64(version.major)),
    member("minor", "semver_minor", (SEMVER,), INT, lambda version: wrap_int64(version.minor)),
    member("patch", "semver_patch", (SEMVER,), INT, lambda version: wrap_int64(version.patch)),
)
