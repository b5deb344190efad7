"""Errors of the API server about wrong fields and names, in its words.

Its regular expressions are left out: messages say what to write instead.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go, pkg/api/validate/content and pkg/util/validation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import is_dns_label, is_label_key, is_label_value, shown

if TYPE_CHECKING:
    from collections.abc import Iterable


REQUIRED = "Required value"


def invalid(value: Any, why: str) -> str:
    """A value that is not allowed, and why."""
    return f"Invalid value: {shown(value)}: {why}"


def unsupported_value(value: str, known: Iterable[str]) -> str:
    """A value that is not one of the supported values."""
    return f"Unsupported value: {shown(value)}: supported values: {', '.join(map(shown, sorted(known)))}"


def duplicate(value: str) -> str:
    """A value that was there before."""
    return f"Duplicate value: {shown(value)}"


def forbidden(why: str) -> str:
    """A field that must not be set like this."""
    return f"Forbidden: {why}"


def too_many(count: int, most: int) -> str:
    """A list with too many items."""
    return f"Too many: {count}: must have at most {most} items"


def too_long(most: int) -> str:
    """A text with too many bytes."""
    return f"Too long: may not be more than {most} bytes"


LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
LONGEST_DRIVER = 63
LONGEST_ID = 32

_ENDS = "and must start and end with an alphanumeric character"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def label_error(text: str) -> str:
    """The error in the name of a request or a namespace; empty if it is valid."""
    if is_dns_label(text):
        return ""
    if len(text) > LONGEST_LABEL:
        return f"must be no more than {LONGEST_LABEL} bytes"
    return f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"


def subdomain_error(text: str) -> str:
    """The error in the name of a claim, a template or a class; empty if it is valid."""
    if len(text) > LONGEST_SUBDOMAIN:
        return f"must be no more than {LONGEST_SUBDOMAIN} bytes"
    if _SUBDOMAIN.fullmatch(text):
        return ""
    return f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"


def driver_name_error(text: str) -> str:
    """The error in the name of a driver, which is also the domain of its attributes; empty if it is valid."""
    if len(text) > LONGEST_DRIVER:
        return f"may not be more than {LONGEST_DRIVER} bytes"
    if _SUBDOMAIN.fullmatch(text.lower()):
        return ""
    return f"an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', {_ENDS}"


def qualified_name_error(text: str) -> str:
    """The error in the name of an attribute or a capacity, with or without a domain; empty if it is valid."""
    domain, slash, identifier = text.rpartition("/")
    if "/" in domain:
        return "must not contain more than one slash"
    if slash and not domain:
        return "the domain must not be empty"
    if slash and not identifier:
        return "the name must not be empty"
    if slash and (error := driver_name_error(domain)):
        return error
    if len(identifier) > LONGEST_ID:
        return f"may not be more than {LONGEST_ID} bytes"
    if _IDENTIFIER.fullmatch(identifier):
        return ""
    form = "a valid C identifier must start with alphabetic character or '_'"
    return f"{form}, followed by a string of alphanumeric characters or '_'"


def label_key_error(text: str) -> str:
    """The error in the key of a label or a taint, or of an annotation in lower case; empty if it is valid."""
    if is_label_key(text):
        return ""
    prefix, slash, name = text.partition("/")
    if not slash:
        name = prefix
    elif "/" in name:
        form = f"a qualified name must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
        return f"{form} with an optional DNS subdomain prefix and '/'"
    elif not prefix:
        return "prefix part must be non-empty"
    elif error := subdomain_error(prefix):
        return f"prefix part {error}"
    if not name:
        return "name part must be non-empty"
    if len(name) > LONGEST_LABEL:
        return f"name part must be no more than {LONGEST_LABEL} bytes"
    return f"name part must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


def label_value_error(text: str) -> str:
    """The error in the value of a label or a taint; empty if it is valid."""
    if is_label_value(text):
        return ""
    if len(text) > LONGEST_LABEL:
        return f"must be no more than {LONGEST_LABEL} bytes"
    return f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


def as_dns_label(text: str) -> str:
    """The nearest name that a request can have; empty where nothing is left of it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def as_label_value(text: str) -> str:
    """The nearest value that a label can have; empty where nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")


def as_dns_subdomain(text: str) -> str:
    """The nearest name that an object can have; empty where nothing is left of it."""
    parts = (re.sub(r"[^a-z0-9]+", "-", part).strip("-") for part in text.lower().split("."))
    return ".".join(part for part in parts if part)
