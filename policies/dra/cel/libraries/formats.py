"""Formats: `format.dns1123Label().validate("a")` and the others that Kubernetes names.

Source: k8s.io/apiserver/pkg/cel/format.go and library/format.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from policies.dra.cel.declarations import Function, Library, function, member
from policies.dra.cel.libraries import name_formats
from policies.dra.cel.libraries.url_escapes import UrlError
from policies.dra.cel.libraries.url_texts import check_request_uri
from policies.dra.cel.types import STRING, Type, list_of, optional_of
from policies.dra.cel.values import Optional

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FORMAT", "LIBRARY", "Format"]

FORMAT = Type("kubernetes.NamedFormat", kind="object")
"""The type of formats; expressions cannot name it."""


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format that texts can be checked against."""

    cel_type: ClassVar[Type] = FORMAT

    name: str
    check: Callable[[str], list[str]]
    """What is wrong with a text."""

    def __eq__(self, other: object) -> bool:
        """Whether both are formats of the same name."""
        return self.name == other.name if isinstance(other, Format) else NotImplemented

    def __hash__(self) -> int:
        """Equal formats have equal hashes."""
        return hash(self.name)

    @staticmethod
    def for_prefixes(name: str, check: Callable[[str], list[str]]) -> Format:
        """The format of names to which something will be added."""
        return Format(name, lambda text: check(name_formats.with_prefix(text)))


def _check_uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


_FORMATS = {
    "dns1123Label": Format("DNS1123Label", name_formats.check_dns_label),
    "dns1123Subdomain": Format("DNS1123Subdomain", name_formats.check_dns_subdomain),
    "dns1035Label": Format("DNS1035Label", name_formats.check_old_dns_label),
    "qualifiedName": Format("QualifiedName", name_formats.check_qualified_name),
    "dns1123LabelPrefix": Format.for_prefixes("DNS1123LabelPrefix", name_formats.check_dns_label),
    "dns1123SubdomainPrefix": Format.for_prefixes("DNS1123SubdomainPrefix", name_formats.check_dns_subdomain),
    "dns1035LabelPrefix": Format.for_prefixes("DNS1035LabelPrefix", name_formats.check_old_dns_label),
    "labelValue": Format("LabelValue", name_formats.check_label_value),
    "uri": Format("URI", _check_uri),
    "uuid": Format("uuid", name_formats.check_uuid),
    "byte": Format("byte", name_formats.check_base64),
    "date": Format("date", name_formats.check_date),
    "datetime": Format("datetime", name_formats.check_date_time),
}


def _named(name: str) -> Optional:
    known = _FORMATS.get(name)
    return Optional() if known is None else Optional(known)


def _format(known: Format) -> Format:
    return known


def _validate(known: Format, text: str) -> Optional:
    problems = known.check(text)
    return Optional(tuple(problems)) if problems else Optional()


LIBRARY = Library(
    functions=(
        *(
            Function(f"format.{name}", (function(f"format.{name}", (), FORMAT, partial(_format, known)),))
            for name, known in _FORMATS.items()
        ),
        Function("validate", (member("format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate),)),
        Function("format.named", (function("format-named", (STRING,), optional_of(FORMAT), _named),)),
    )
)
