"""Formats: `format.dns1123Label().validate("a")` and others, with Kubernetes' error texts.

Source: k8s.io/apiserver/pkg/cel/format.go and library/format.go; k8s.io/apimachinery/pkg/util/validation,
pkg/api/validation/generic.go and pkg/api/validate/content; k8s.io/kube-openapi/pkg/validation/strfmt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from policies.cel.declarations import Overload, function, member
from policies.cel.libraries.urls import UrlError, check_request_uri
from policies.cel.types import STRING, Type, list_of, optional_of
from policies.cel.values import Optional

if TYPE_CHECKING:
    from collections.abc import Callable


class _Rule(NamedTuple):
    """A regular expression, its description, and examples."""

    pattern: re.Pattern[str]
    message: str

    @classmethod
    def of(cls, pattern: str, words: str, *examples: str) -> _Rule:
        """A rule with an expression that Python and Go read alike, its words, and examples."""
        shown = " or ".join(f"'{example}', " for example in examples)
        return cls(re.compile(pattern), f"{words} (e.g. {shown}regex used for validation is '{pattern}')")


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CHARACTERS = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"

_DNS_LABEL = _Rule.of(
    _LABEL,
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character",
    "my-name",
    "123-abc",
)
_DNS_SUBDOMAIN = _Rule.of(
    rf"{_LABEL}(\.{_LABEL})*",
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character",
    "example.com",
)
_OLD_DNS_LABEL = _Rule.of(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    "my-name",
    "abc-123",
)
_LABEL_KEY = _Rule.of(_NAME, f"{_CHARACTERS} alphanumeric character", "MyName", "my.name", "123-abc")
_LABEL_VALUE = _Rule.of(
    f"({_NAME})?",
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character",
    "MyValue",
    "my_value",
    "12345",
)
_LONGEST_LABEL = 63
_LONGEST_SUBDOMAIN = 253

_UUID = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64 = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _too_long(text: str, most: int, unit: str) -> list[str]:
    return [f"must be no more than {most} {unit}"] if len(text.encode()) > most else []


def _against(rule: _Rule, text: str) -> list[str]:
    return [] if rule.pattern.fullmatch(text) else [rule.message]


def check_dns_label(text: str) -> list[str]:
    """The problems of a label of RFC 1123."""
    problems = _too_long(text, _LONGEST_LABEL, "characters")
    if _DNS_LABEL.pattern.fullmatch(text):
        return problems
    has_dots = _DNS_SUBDOMAIN.pattern.fullmatch(text) is not None
    return [*problems, "must not contain dots" if has_dots else _DNS_LABEL.message]


def check_dns_subdomain(text: str, unit: str = "characters") -> list[str]:
    """The problems of a subdomain of RFC 1123."""
    return _too_long(text, _LONGEST_SUBDOMAIN, unit) + _against(_DNS_SUBDOMAIN, text)


def check_old_dns_label(text: str) -> list[str]:
    """The problems of a label of RFC 1035, which begins with a letter."""
    return _too_long(text, _LONGEST_LABEL, "characters") + _against(_OLD_DNS_LABEL, text)


def check_qualified_name(text: str) -> list[str]:
    """The problems of the key of a label: a name, optionally after a domain and a slash."""
    domain, slash, name = text.rpartition("/")
    if "/" in domain:
        message = f"a valid label key {_LABEL_KEY.message}"
        return [f"{message} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    domain_problems = check_dns_subdomain(domain, "bytes") if domain else ["must be non-empty"] if slash else []
    name_problems = _too_long(name, _LONGEST_LABEL, "bytes") if name else ["must be non-empty"]
    name_problems += _against(_LABEL_KEY, name)
    return [f"prefix part {problem}" for problem in domain_problems] + [
        f"name part {problem}" for problem in name_problems
    ]


def check_date_time(text: str) -> list[str]:
    """The problems of a date and time such as 2024-02-29T12:00:00Z; ignores text after a second `T`."""
    day, _, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    if match is None or not _is_date(day) or match[1] > "23" or match[2] > "59" or match[3] > "59":
        return ["invalid datetime"]
    return []


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or _LEAP_YEAR, month, day)
    except ValueError:
        return False
    return True


_LEAP_YEAR = 2000
"""Stands for the year 0, which Go knows and Python does not."""


FORMAT = Type("kubernetes.NamedFormat", kind="object")
"""The type of formats; expressions cannot name it."""


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format that texts can be checked against."""

    cel_type: ClassVar[Type] = FORMAT

    name: str
    check: Callable[[str], list[str]]
    """The problems of a text."""

    def __eq__(self, other: object) -> bool:
        """True if both are formats of the same name."""
        return self.name == other.name if isinstance(other, Format) else NotImplemented

    def __hash__(self) -> int:
        """Equal formats have equal hashes."""
        return hash(self.name)

    @staticmethod
    def for_prefixes(name: str, check: Callable[[str], list[str]]) -> Format:
        """The format of names to which something will be added: a last dash does not matter.

        The character before the dash goes too, as in Kubernetes.
        """
        return Format(name, lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text))


def _check_uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", check_dns_label),
    "dns1123Subdomain": Format("DNS1123Subdomain", check_dns_subdomain),
    "dns1035Label": Format("DNS1035Label", check_old_dns_label),
    "qualifiedName": Format("QualifiedName", check_qualified_name),
    "dns1123LabelPrefix": Format.for_prefixes("DNS1123LabelPrefix", check_dns_label),
    "dns1123SubdomainPrefix": Format.for_prefixes("DNS1123SubdomainPrefix", check_dns_subdomain),
    "dns1035LabelPrefix": Format.for_prefixes("DNS1035LabelPrefix", check_old_dns_label),
    "labelValue": Format(
        "LabelValue", lambda text: _too_long(text, _LONGEST_LABEL, "bytes") + _against(_LABEL_VALUE, text)
    ),
    "uri": Format("URI", _check_uri),
    "uuid": Format("uuid", lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"]),
    "byte": Format("byte", lambda text: [] if _BASE64.fullmatch(text) else ["invalid base64"]),
    "date": Format("date", lambda text: [] if _is_date(text) else ["invalid date"]),
    "datetime": Format("datetime", check_date_time),
}


def _format_by_name(name: str) -> Optional:
    known = _FORMATS.get(name)
    return Optional() if known is None else Optional(known)


def _validate(known: Format, text: str) -> Optional:
    problems = known.check(text)
    return Optional(tuple(problems)) if problems else Optional()


LIBRARY: tuple[Overload, ...] = (
    *(
        function(f"format.{name}", f"format.{name}", (), FORMAT, lambda known=known: known)
        for name, known in _FORMATS.items()
    ),
    member("validate", "format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate),
    function("format.named", "format-named", (STRING,), optional_of(FORMAT), _format_by_name),
)
